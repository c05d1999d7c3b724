#!/usr/bin/env python3
"""ps_metrics.py - the numbers of a job, as a page for Prometheus

    ps_metrics.py TFDC TFD_RUN ROOT    TAP

The page is in the text format, its numbers are those of the job, and whatever
clients send, the job does what it does without them.
"""
import http.client
import os
import re
import signal
import socket
import sys
import tempfile
import time

import ps_tasks
from tap import check, end

ps_tasks.use(*sys.argv[1:4])
CLOSURES = 20000
LINE = re.compile(r"([a-z_]+)(?:\{(\w+=\"[^\"]*\"(?:,\w+=\"[^\"]*\")*)\})? (\S+)")


def read(page):
    """The samples by name and labels; an assertion if it is not in the format:
    https://prometheus.io/docs/instrumenting/exposition_formats"""
    helped, types, samples = set(), {}, {}
    assert page.endswith("\n")
    for line in page.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name in helped and name not in types
            assert kind in ("counter", "gauge", "histogram")
            assert (kind == "counter") == name.endswith("_total")
            types[name] = kind
        else:
            name, labels, value = LINE.fullmatch(line).groups()
            family = name if name in types else \
                re.fullmatch(r"(.*)_(bucket|sum|count)", name)[1]
            assert family == list(types)[-1], name  # all of one together
            assert (family == name) == (types[family] != "histogram")
            assert (name, labels) not in samples
            samples[name, labels] = float(value)
    assert helped == set(types)
    return samples


def histogram(samples, server):
    rows = [(labels, value) for (name, labels), value in samples.items()
            if name == "tfd_server_staleness_bucket" and
            labels.startswith(f'server="{server}"')]
    limits = [float(re.search(r'le="(.*)"', labels)[1]) for labels, _ in rows]
    values = [value for _, value in rows]
    count = samples["tfd_server_staleness_count", f'server="{server}"']
    assert limits == sorted(limits) and limits[-1] == float("inf")
    assert values == sorted(values) and values[-1] == count
    assert samples["tfd_server_staleness_sum", f'server="{server}"'] >= 0
    return count


def get(port, path="/metrics", method="GET"):
    http_ = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    http_.request(method, path)
    answer = http_.getresponse()
    body = answer.read().decode()
    http_.close()
    return answer.status, answer.getheader("Content-Type"), body


def send(port, what):
    """The status line of the answer, "" if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(what)
        try:
            return s.makefile("rb").readline().decode().strip()
        except ConnectionError:
            return ""


def joined_page(port):
    """The page when both workers and both servers are on it."""
    wanted = [(f"tfd_{role}_up", f'{role}="{i}"')
              for role in ("worker", "server") for i in range(2)]
    begun = time.time()
    while True:
        answer = get(port)
        samples = read(answer[2])
        if time.time() - begun > ps_tasks.LIMIT or all(key in samples for key in wanted):
            return answer, samples
        time.sleep(0.05)


def page(port):
    (status, kind, body), samples = joined_page(port)
    both = sum(samples["tfd_worker_closures_total", f'worker="{i}"']
               for i in range(2))
    check("the page is in the text format", status == 200 and
          kind == "text/plain; version=0.0.4; charset=utf-8", (status, kind))
    counts = [histogram(samples, server) for server in range(2)]
    begun = time.time()
    while time.time() - begun < ps_tasks.LIMIT and not min(counts):
        time.sleep(0.2)
        samples = read(get(port)[2])
        counts = [histogram(samples, server) for server in range(2)]
    later = read(get(port)[2])
    check("... with the job's numbers", min(counts) > 0 and
          samples["tfd_server_variables_bytes", 'server="0"'] > 0 and
          samples["tfd_worker_up", 'worker="1"'] == 1 and
          both <= later["tfd_closures_ended_total", None] <= CLOSURES and
          all(later[key] >= samples[key] for key in samples
              if key[0].endswith("_total")), later)


def strangers(port):
    for what, want in [
            (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
            (b"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
            (b"GET /metrics?x=1 HTTP/1.0\n\n", "HTTP/1.1 200 OK"),
            (b"GET /metrics\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            (b"\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            (b"\0\xff GET\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 5000,
             "HTTP/1.1 431 Request Header Fields Too Large"),
            (b"x" * 100000, "HTTP/1.1 431 Request Header Fields Too Large")]:
        got = send(port, what)
        check(f"a client that sends {what[:30]}", got == want or
              (got == "" and len(what) > 50000), got)
    status, _, body = get(port, method="HEAD")
    check("a client that wants the head alone", (status, body) == (200, ""),
          body)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    silent[0].sendall(b"GET /met")
    begun = time.time()
    status = get(port)[0]
    check("20 clients that send nothing hold up another one for a while",
          status == 200 and time.time() - begun < 15, time.time() - begun)
    for s in silent:
        s.close()


def job():
    """Its workers are stopped meanwhile, so that it does not end."""
    made = ps_tasks.plan("learns")
    begun = ps_tasks.start(made, "-n", "workers=2,ps=2", "--metrics", "0",
                           "--set", f"closures={CLOSURES}")
    line = begun.stderr.readline()
    port = int(re.fullmatch(r"metrics at http://127.0.0.1:(\d+)/metrics\n",
                            line)[1])
    page(port)
    workers = list(ps_tasks.tasks(begun, "worker"))
    for pid in workers:
        ps_tasks.send(pid, signal.SIGSTOP)
    strangers(port)
    samples = read(get(port)[2])
    check("workers that are stopped are not up", len(workers) == 2 and
          [samples["tfd_worker_up", f'worker="{i}"'] for i in range(2)] ==
          [0, 0], samples)
    for pid in workers:
        ps_tasks.send(pid, signal.SIGCONT)
    code, out, err = ps_tasks.end_of(begun)
    check("the job did not notice", code == 0 and
          out == f"{CLOSURES} closures\n", f"{code} {out} {err}")


def refusals():
    made = ps_tasks.plan("counts")
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
        for where, want in [
                (str(port), f"cannot listen at 127.0.0.1:{port}: Address "
                 "already in use"),
                ("here", '--metrics: "here" is no HOST:PORT'),
                ("127.0.0.1:99999", "the port is no number from 0 to 65535")]:
            code, out, err = ps_tasks.run(made, "-n", "workers=1,ps=1",
                                          "--metrics", where)
            check(f"--metrics {where}", code == 2 and want in err, out + err)
    code, out, err = ps_tasks.run(made, "--metrics", "0")
    check("one process has none", code == 2 and
          "--metrics has no effect here" in err, out + err)


def brackets():
    """Where the machine has IPv6."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as why:
        check(f"an address of IPv6 is in brackets in the URL # SKIP {why}", True)
        return
    code, out, err = ps_tasks.run(ps_tasks.plan("counts"), "-n",
                                  "workers=1,ps=1", "--metrics", "[::1]:0")
    check("an address of IPv6 is in brackets in the URL", code == 0 and
          re.search(r"metrics at http://\[::1\]:\d+/metrics\n", err),
          out + err)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    job()
    refusals()
    brackets()
end()
