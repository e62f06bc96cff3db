/*
 * Kafka Streams: the topic is keyed by content, so both steps stay in its partitions.
 *
 * A processor keeps the registers by content and user and forwards how an event changes its content's counts; an aggregate
 * with a cache adds that up and emits once per content and commit. Guarantee: exactly once (exactly_once_v2), state in
 * RocksDB with changelog topics.
 */
import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.ObjectMapper
import groovy.transform.CompileStatic
import java.nio.ByteBuffer
import org.apache.kafka.clients.consumer.ConsumerConfig
import org.apache.kafka.clients.producer.ProducerConfig
import org.apache.kafka.common.serialization.Serde
import org.apache.kafka.common.serialization.Serdes
import org.apache.kafka.common.utils.Bytes
import org.apache.kafka.streams.KafkaStreams
import org.apache.kafka.streams.StreamsBuilder
import org.apache.kafka.streams.StreamsConfig
import org.apache.kafka.streams.kstream.Aggregator
import org.apache.kafka.streams.kstream.Consumed
import org.apache.kafka.streams.kstream.Grouped
import org.apache.kafka.streams.kstream.Initializer
import org.apache.kafka.streams.kstream.Materialized
import org.apache.kafka.streams.kstream.Produced
import org.apache.kafka.streams.kstream.ValueMapperWithKey
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor
import org.apache.kafka.streams.processor.api.FixedKeyProcessor
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier
import org.apache.kafka.streams.processor.api.FixedKeyRecord
import org.apache.kafka.streams.state.KeyValueStore
import org.apache.kafka.streams.state.Stores

/** Forwards (change of likes, change of dislikes), packed by `Pair`. */
@CompileStatic
class Registers extends ContextualFixedKeyProcessor<String, byte[], byte[]> {
    static final String STORE = 'registers'
    static final Map<String, Integer> REACTIONS = [LIKE: 1, DISLIKE: 2, UNLIKE: 3, UNDISLIKE: 3]
    static final List<String> REGIONS = ['us', 'eu', 'ap', 'sa', 'af', 'me', 'oc']

    private final ObjectMapper mapper = new ObjectMapper()
    private KeyValueStore<String, Long> store

    @Override
    void init(FixedKeyProcessorContext<String, byte[]> context) {
        super.init(context)
        store = context.getStateStore(STORE)
    }

    @Override
    void process(FixedKeyRecord<String, byte[]> record) {
        JsonNode event
        try {
            event = mapper.readTree(record.value())
        } catch (IOException ignored) {
            return
        }
        String content = event.path('content_id').asText(null)
        String user = event.path('user_id').asText(null)
        Integer reaction = REACTIONS.get(event.path('action').asText(''))
        int region = REGIONS.indexOf(event.path('region').asText(''))
        if (content == null || user == null || reaction == null || region < 0) {
            return
        }
        long register = event.path('event_time').asLong() << 20 | ((long) reaction) << 16 | (long) region
        String key = content + '\u001f' + user
        Long old = store.get(key)
        if (old != null && old.longValue() >= register) {
            return
        }
        store.put(key, register)
        int before = old == null ? 3 : (int) (old.longValue() >> 16 & 15L)
        int after = reaction.intValue()
        if (before != after) {
            long likes = (after == 1 ? 1L : 0L) - (before == 1 ? 1L : 0L)
            long dislikes = (after == 2 ? 1L : 0L) - (before == 2 ? 1L : 0L)
            context().forward(record.withValue(Pair.pack(likes, dislikes)))
        }
    }
}

/** Two longs as bytes. */
@CompileStatic
class Pair {
    static byte[] pack(long first, long second) {
        ByteBuffer.allocate(16).putLong(first).putLong(second).array()
    }

    static byte[] add(byte[] some, byte[] more) {
        ByteBuffer a = ByteBuffer.wrap(some)
        ByteBuffer b = ByteBuffer.wrap(more)
        pack(a.getLong(0) + b.getLong(0), a.getLong(8) + b.getLong(8))
    }
}

@CompileStatic
class kafka_streams {
    static void main(String[] arguments) {
        Map<String, String> options = [:]
        for (int i = 0; i < arguments.length; i += 2) {
            options[arguments[i].substring(2)] = arguments[i + 1]
        }
        KafkaStreams streams = new KafkaStreams(topology(options.topic, options.out), settings(options))
        Runtime.runtime.addShutdownHook(new Thread({ streams.close() } as Runnable))
        streams.start()
    }

    static Properties settings(Map<String, String> options) {
        Properties settings = new Properties()
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, options.group)
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.bootstrap)
        settings.put(StreamsConfig.STATE_DIR_CONFIG, options.state)
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2)
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2)
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1_000)
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64L << 20)
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1)
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), 'earliest')
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 10_000)
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 5_000)
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 50)
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 262_144)
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), 'lz4')
        settings
    }

    static org.apache.kafka.streams.Topology topology(String topic, String out) {
        StreamsBuilder builder = new StreamsBuilder()
        Serde<String> strings = Serdes.String()
        Serde<byte[]> bytes = Serdes.ByteArray()
        builder.addStateStore(
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(Registers.STORE), strings, Serdes.Long()))
        FixedKeyProcessorSupplier<String, byte[], byte[]> registers = new FixedKeyProcessorSupplier<String, byte[], byte[]>() {
            @Override
            FixedKeyProcessor<String, byte[], byte[]> get() { new Registers() }
        }
        Initializer<byte[]> zero = { Pair.pack(0, 0) } as Initializer<byte[]>
        Aggregator<String, byte[], byte[]> add =
            { String key, byte[] delta, byte[] sum -> Pair.add(sum, delta) } as Aggregator<String, byte[], byte[]>
        ValueMapperWithKey<String, byte[], byte[]> json = { String key, byte[] sum ->
            ByteBuffer pair = ByteBuffer.wrap(sum)
            Map<String, Object> total = [content_id: key, likes: pair.getLong(0), dislikes: pair.getLong(8)] as Map<String, Object>
            MAPPER.writeValueAsBytes(total)
        } as ValueMapperWithKey<String, byte[], byte[]>
        builder.stream(topic, Consumed.with(strings, bytes))
            .processValues(registers, Registers.STORE)
            .groupByKey(Grouped.with(strings, bytes))
            .aggregate(zero, add, Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as('counts')
                .withKeySerde(strings).withValueSerde(bytes).withCachingEnabled())
            .toStream()
            .mapValues(json)
            .to(out, Produced.with(strings, bytes))
        builder.build()
    }

    static final ObjectMapper MAPPER = new ObjectMapper()
}
