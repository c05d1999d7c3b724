"""tf_lookups.py - lookups.tfd under ParameterServerStrategy

    tf_lookups.py ROWS STEPS SERVERS     microseconds, examples/s, last loss

A worker and servers as processes of this machine, over gRPC.
"""
import multiprocessing
import os
import socket
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
BATCH, WIDTH, WARM = 64, 16, 50


def free_addresses(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return found


def serve(cluster, kind, index):
    import tensorflow as tf
    tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=kind,
                         task_index=index, protocol="grpc").join()


def closure(tf, table, squares, rows, servers):
    """A step: Adagrad of the rows of each shard."""
    per = -(-rows // servers)

    def step(iterator):
        ids, y = next(iterator)
        found = tf.compat.v1.nn.embedding_lookup(table.variables, ids,
                                                 partition_strategy="div")
        with tf.GradientTape() as tape:
            tape.watch(found)
            loss = tf.reduce_sum((tf.reduce_sum(found, 1) - y) ** 2)
        slope = tape.gradient(loss, found)
        for k, (w, q) in enumerate(zip(table.variables, squares.variables)):
            mine = tf.where(ids // per == k)[:, 0]
            named, of = tf.unique(tf.gather(ids, mine) - k * per)
            sums = tf.math.unsorted_segment_sum(tf.gather(slope, mine), of,
                                                tf.size(named))
            grown = tf.gather(q, named) + sums * sums
            change = 0.1 * sums / (tf.sqrt(grown) + 1e-7)
            q.scatter_update(tf.IndexedSlices(grown, named))
            w.scatter_sub(tf.IndexedSlices(change, named))
        return loss
    return tf.function(step)


def train(cluster, rows, steps, servers):
    import tensorflow as tf
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), rpc_layer="grpc")
    parts = tf.distribute.experimental.partitioners.FixedShardsPartitioner
    strategy = tf.distribute.ParameterServerStrategy(
        resolver, variable_partitioner=parts(servers))
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

    def variable(value):
        return tf.Variable(
            initial_value=lambda shard_info=None: tf.fill(
                shard_info.shape if shard_info else (rows, WIDTH), value),
            shape=(rows, WIDTH), dtype=tf.float32)

    def examples():
        k = tf.data.Dataset.range(BATCH * 1000)
        return k.map(lambda k: (k * 7919 % rows, tf.cast(k % 2, tf.float32))
                     ).repeat().batch(BATCH)

    with strategy.scope():
        table, squares = variable(0.5), variable(0.1)
    batches = iter(coordinator.create_per_worker_dataset(examples))
    step = closure(tf, table, squares, rows, servers)
    for _ in range(WARM):
        coordinator.schedule(step, args=(batches,))
    coordinator.join()
    begin = time.time()
    for _ in range(steps):
        last = coordinator.schedule(step, args=(batches,))
    coordinator.join()
    each = (time.time() - begin) / steps
    print(f"{each * 1e6:.1f} {BATCH / each:.0f} {last.fetch():.3f}", flush=True)


def main():
    rows, steps, servers = map(int, sys.argv[1:])
    multiprocessing.set_start_method("spawn")
    addresses = free_addresses(servers + 1)
    cluster = {"worker": addresses[:1], "ps": addresses[1:]}
    tasks = [multiprocessing.Process(target=serve, args=(cluster, kind, i),
                                     daemon=True)
             for kind in cluster for i in range(len(cluster[kind]))]
    for task in tasks:
        task.start()
    train(cluster, rows, steps, servers)
    for task in tasks:
        task.kill()
    os._exit(0)  # TensorFlow would wait for its servers


if __name__ == "__main__":
    main()
