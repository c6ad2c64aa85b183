package dev.mullion.windows.sets

import java.nio.ByteBuffer

import org.scalacheck.Gen
import org.scalacheck.Prop.forAll

import dev.mullion.PropertySuite

class VarintSuite extends PropertySuite {

  private val anyNumber = Gen.oneOf(Naive.anyTime, Gen.choose(0, 63).map(1L << _), Gen.choose(0, 63).map(-1L >>> _))

  private def bytesOf(numbers: Long*): ByteBuffer = {
    val buffer = ByteBuffer.allocate(numbers.size * 10)
    numbers.foreach(Varint.putSigned(buffer, _))
    buffer.flip()
    buffer
  }

  property("numbers written one after the other are read back") {
    forAll(Gen.listOf(anyNumber)) { numbers =>
      val buffer = bytesOf(numbers: _*)
      val read = new Varint.Numbers(buffer.array.take(buffer.limit()))
      assertEquals(List.fill(numbers.size)(Varint.getSigned(buffer)), numbers)
      assert(!buffer.hasRemaining)
      assertEquals(Iterator.continually(read).takeWhile(_.hasMore).map(_.next()).toList, numbers)
    }
  }

  property("a number takes a byte for every seven bits in addition to its sign, and never more than ten") {
    forAll(anyNumber) { n =>
      val bits = (if (n < 0) BigInt(n) * -2 - 1 else BigInt(n) * 2).bitLength
      assertEquals(bytesOf(n).remaining, Math.max(1, (bits + 6) / 7))
    }
  }

  test("the bytes are those of protocol buffers' sint64") {
    // The examples of the protocol buffers encoding guide: zigzag 0, 1, 2, 3 and, in two bytes, 150.
    def bytes(n: Long) = { val b = bytesOf(n); Seq.fill(b.remaining)(b.get() & 0xff) }
    assertEquals(Seq(0L, -1L, 1L, -2L).map(bytes), Seq(Seq(0), Seq(1), Seq(2), Seq(3)))
    assertEquals(bytes(75), Seq(0x96, 0x01))
  }
}
