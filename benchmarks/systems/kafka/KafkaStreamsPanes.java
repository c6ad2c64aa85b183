import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;

/** Counts and sums messages by key in windows of one second: SERVERS SOURCE TARGET FOLDER. A result is the last one of its window. */
public final class KafkaStreamsPanes {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static JsonNode parsed(Object text) {
    try {
      return JSON.readTree((String) text);
    } catch (Exception e) {
      throw new IllegalArgumentException((String) text, e);
    }
  }

  public static void main(String[] asked) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "panes");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, asked[0]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, asked[3] + "/state");
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    // Results leave the cache of a table with each commit. The default is 30 seconds.
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(
            asked[1],
            Consumed.with(Serdes.String(), Serdes.String())
                .withTimestampExtractor((record, last) -> parsed(record.value()).get("ts").asLong()))
        .mapValues(text -> parsed(text).get("v").asLong())
        .groupByKey(org.apache.kafka.streams.kstream.Grouped.with(Serdes.String(), Serdes.Long()))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(1), Duration.ofSeconds(1)))
        .aggregate(
            () -> new byte[16],
            (key, value, sums) -> {
              ByteBuffer was = ByteBuffer.wrap(sums);
              return ByteBuffer.allocate(16).putLong(was.getLong(0) + 1).putLong(was.getLong(8) + value).array();
            },
            Materialized.with(Serdes.String(), Serdes.ByteArray()))
        .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
        .toStream()
        .map(
            (window, sums) -> {
              ByteBuffer is = ByteBuffer.wrap(sums);
              String result =
                  String.format(
                      "{\"k\":\"%s\",\"start\":%d,\"n\":%d,\"total\":%d}",
                      window.key(), window.window().start(), is.getLong(0), is.getLong(8));
              return new org.apache.kafka.streams.KeyValue<>(window.key(), result);
            })
        .to(asked[2], Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
    streams.start();
  }
}
