package dev.mullion

/** A local file system without child processes, for tests and local checkpoints. */
package object files
