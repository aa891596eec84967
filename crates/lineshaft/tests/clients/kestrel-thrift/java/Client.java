// Calls every method through the generated Java client, over each transport and protocol: `Client PORT`.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import net.lag.kestrel.thrift.Item;
import net.lag.kestrel.thrift.Kestrel;
import net.lag.kestrel.thrift.QueueInfo;
import net.lag.kestrel.thrift.Status;
import org.apache.thrift.TApplicationException;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TCompactProtocol;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.TTransport;
import org.apache.thrift.transport.layered.TFramedTransport;

public final class Client {
    private static int port;

    public static void main(String[] arguments) throws Exception {
        port = Integer.parseInt(arguments[0]);
        for (boolean framed : new boolean[] {true, false}) {
            for (String protocol : Arrays.asList("binary", "old", "compact")) {
                play("java-" + framed + "-" + protocol, framed, protocol);
            }
        }
    }

    private static Kestrel.Client connect(boolean framed, String protocol) throws TException {
        TTransport transport = new TSocket("127.0.0.1", port, 10_000);
        if (framed) {
            transport = new TFramedTransport(transport);
        }
        transport.open();
        return new Kestrel.Client(
            protocol.equals("compact")
                ? new TCompactProtocol(transport)
                : new TBinaryProtocol(transport, false, protocol.equals("binary")));
    }

    private static void play(String queue, boolean framed, String protocol) throws Exception {
        Kestrel.Client a = connect(framed, protocol);
        Kestrel.Client b = connect(framed, protocol);

        check(a.get_version().startsWith("2."), "the version");
        check(a.current_status() == Status.UP, "the status");
        check(a.put(queue, items("1", "2", "3"), 0) == 3, "a put");
        QueueInfo info = a.peek(queue);
        check(text(info.bufferForHead_item()).equals("1"), "the head");
        check(info.getItems() == 3 && info.getBytes() == 3, "the numbers of the queue");
        check(texts(a.get(queue, 1, 0, 0)).equals("1"), "a get");

        // Open reads are ended on any connection.
        List<Item> open = a.get(queue, 5, 0, 60_000);
        check(texts(open).equals("2 3"), "open reads");
        check(b.peek(queue).getOpen_transactions() == 2, "the number of open reads");
        check(b.confirm(queue, Collections.singleton(open.get(0).getId())) == 1, "a confirm");
        check(b.abort(queue, ids(open)) == 1, "an abort");
        check(texts(b.get(queue, 5, 0, 0)).equals("3"), "what came back");
        check(b.get(queue, 1, 100, 0).isEmpty(), "a wait for nothing");

        // One waits, the other puts.
        Thread producer = new Thread(() -> {
            try {
                Thread.sleep(100);
                check(b.put(queue, items("late"), 60_000) == 1, "a put for who waits");
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
        producer.start();
        check(texts(a.get(queue, 1, 10_000, 0)).equals("late"), "a wait");
        producer.join();

        a.put(queue, items("x"), 0);
        a.flush_queue(queue);
        check(a.peek(queue).getItems() == 0 && !a.peek(queue).isSetHead_item(), "a flush");
        a.delete_queue(queue);
        a.flush_all_queues();
        a.set_status(Status.UP);
        fails(() -> a.set_status(Status.NOT_CONFIGURED), TApplicationException.INTERNAL_ERROR);
        fails(() -> a.put(queue + "/x", items("x"), 0), TApplicationException.INTERNAL_ERROR);
        check(a.put(queue, items("still there"), 0) == 1, "a put after a failure");
        a.delete_queue(queue);
        close(a);
        close(b);
    }

    private interface Call {
        void make() throws TException;
    }

    private static void fails(Call call, int type) throws TException {
        try {
            call.make();
        } catch (TApplicationException failure) {
            check(failure.getType() == type, failure.toString());
            return;
        }
        throw new AssertionError("the call should fail");
    }

    private static void close(Kestrel.Client client) {
        client.getInputProtocol().getTransport().close();
    }

    private static List<ByteBuffer> items(String... texts) {
        List<ByteBuffer> items = new ArrayList<>();
        for (String text : texts) {
            items.add(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
        }
        return items;
    }

    private static String text(ByteBuffer bytes) {
        return StandardCharsets.UTF_8.decode(bytes.duplicate()).toString();
    }

    private static String texts(List<Item> items) {
        List<String> texts = new ArrayList<>();
        items.forEach(item -> texts.add(text(item.bufferForData())));
        return String.join(" ", texts);
    }

    private static Set<Long> ids(List<Item> items) {
        Set<Long> ids = new HashSet<>();
        items.forEach(item -> ids.add(item.getId()));
        return ids;
    }

    private static void check(boolean fits, String what) {
        if (!fits) {
            throw new AssertionError(what + " is not as it should be");
        }
    }
}
