package dev.mullion

/** A local file system that starts no processes. Hadoop's own, without its native library, starts one for each `chmod`
  * and `readlink`, which is most of what a small batch on a laptop costs. For tests and local checkpoints; a cluster
  * has its own.
  */
package object files
