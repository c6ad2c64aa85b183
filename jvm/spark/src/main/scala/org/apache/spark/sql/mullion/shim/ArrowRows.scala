package org.apache.spark.sql.mullion.shim

import java.io.{ByteArrayOutputStream, OutputStream}
import java.nio.channels.Channels

import org.apache.arrow.vector.{VectorSchemaRoot, VectorUnloader}
import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.MessageSerializer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils

/** Writes rows of one schema as Arrow record batches. The reader gets the schema once, so that a small batch costs
  * little.
  */
private[mullion] final class ArrowRows(schema: StructType) extends AutoCloseable {
  private val arrowSchema =
    ArrowUtils.toArrowSchema(schema, "UTC", errorOnDuplicatedFieldNames = true, largeVarTypes = false)
  private val allocator = ArrowUtils.rootAllocator.newChildAllocator("mullion rows", 0, Long.MaxValue)
  private val root = VectorSchemaRoot.create(arrowSchema, allocator)
  private val writer = ArrowWriter.create(root)

  /** The schema as an Arrow message. */
  def schemaBytes: Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), arrowSchema)
    bytes.toByteArray
  }

  def add(row: InternalRow): Unit = writer.write(row)

  /** Writes the rows since the last call as one record batch. */
  def writeTo(out: OutputStream): Unit = {
    writer.finish()
    val batch = new VectorUnloader(root).getRecordBatch
    try MessageSerializer.serialize(new WriteChannel(Channels.newChannel(out)), batch)
    finally {
      batch.close()
      writer.reset()
    }
    ()
  }

  override def close(): Unit = {
    root.close()
    allocator.close()
  }
}
