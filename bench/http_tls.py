#!/usr/bin/python3
"""bench/http_tls - TLS of the HTTP server, beside nginx with the same certificate.

    http_tls.py DROVER [--rounds N] [--seconds N]

Both are one process on one thread, with OpenSSL's defaults: TLS 1.3, a certificate with an ECDSA key on P-256,
tickets and no cache of sessions. They give the same answer. The clients are the same too: for connections this
program, with four threads, each connection with one request; for requests on open connections wrk.

Rounds alternate between the servers. Figures and ratios are medians of the rounds. CPU is what the server's process used,
user and system, for one connection or request: it depends less than a rate on what else the machine does.
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

NGINX = """\
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000;
    ssl_certificate {cert}; ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache off; ssl_session_tickets on;
    server {{
        listen 127.0.0.1:{plain}; listen 127.0.0.1:{secure} ssl;
        location / {{ default_type application/json; return 200 '{{"status":"ok"}}\\n'; }}
    }}
}}
"""
THREADS = 4
CONNECTIONS = 16
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A process, with a plain and a secure port."""

    def __init__(self, command, plain, secure):
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.plain, self.secure = plain, secure
        for port in plain, secure:
            deadline = time.monotonic() + 30
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    if time.monotonic() > deadline or self.process.poll() is not None:
                        sys.exit(f"{command[0]} did not start")
                    time.sleep(0.02)

    def cpu_ns(self):
        """Of all threads."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def connect_once(context, port, session):
    """One connection with one request. Returns its session."""
    with socket.create_connection(("127.0.0.1", port)) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as s:
            s.sendall(REQUEST % port)
            answer = b""
            while part := s.recv(4096):
                answer += part
            assert b" 200 " in answer and s.version() == "TLSv1.3" and s.session_reused == bool(session)
            return s.session


def connections(server, cert, seconds, resumed):
    """Connections in that time, one after the other on each thread."""
    counts, end = [0] * THREADS, time.monotonic() + seconds

    def work(i):
        context = ssl.create_default_context(cafile=cert)
        session = connect_once(context, server.secure, None) if resumed else None
        while time.monotonic() < end:
            found = connect_once(context, server.secure, session)
            session = found if resumed else None
            counts[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def requests(server, scheme, seconds):
    port = server.secure if scheme == "https" else server.plain
    done = subprocess.run(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", f"{scheme}://127.0.0.1:{port}/healthz"],
                          capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in done or "Socket errors" in done:
        sys.exit(done)
    return int(re.search(r"(\d+) requests in", done)[1])


def measure(server, count):
    """Of count(): how many a second, and CPU in microseconds for each."""
    cpu, began = server.cpu_ns(), time.monotonic()
    number = count()
    seconds = time.monotonic() - began
    return number / seconds, (server.cpu_ns() - cpu) / 1e3 / number


def make_certificate(directory):
    cert, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-out", cert, "-keyout", key], check=True, stderr=subprocess.DEVNULL)
    return cert, key


def start_both(drover, directory, cert, key):
    ports = [free_port() for _ in range(4)]
    (directory / "nginx.conf").write_text(NGINX.format(cert=cert, key=key, plain=ports[2], secure=ports[3]))
    ours = Server([drover, "serve", "--config", "none", "--journal", "none", "--zk", "none", "--socket", "none",
                   "--http", f"127.0.0.1:{ports[0]}", "--https", f"127.0.0.1:{ports[1]}",
                   "--tls-cert", cert, "--tls-key", key], *ports[:2])
    try:
        return ours, Server(["nginx", "-p", directory, "-c", directory / "nginx.conf", "-e", "stderr"], *ports[2:])
    except BaseException:
        ours.stop()
        raise


def middle(*columns):
    return [statistics.median(column) for column in columns]


def run(ours, nginx, cert, args):
    kinds = {
        "connections, full handshake": lambda s: connections(s, cert, args.seconds, False),
        "connections, resumed": lambda s: connections(s, cert, args.seconds, True),
        f"requests, TLS, {CONNECTIONS} open": lambda s: requests(s, "https", args.seconds),
        f"requests, plain, {CONNECTIONS} open": lambda s: requests(s, "http", args.seconds),
    }
    print("| what | drover/s | nginx/s | ratio | drover CPU | nginx CPU | nginx / drover, of CPU |")
    print("|---|---|---|---|---|---|---|")
    own = {}
    for name, count in kinds.items():
        seen = {ours: [], nginx: []}
        for i in range(args.rounds):
            for server in (ours, nginx) if i % 2 == 0 else (nginx, ours):
                seen[server].append(measure(server, lambda s=server: count(s)))
        (a, a_cpu), (b, b_cpu) = (middle(*zip(*seen[s])) for s in (ours, nginx))
        rate, cpu = middle(*zip(*((x / y, v / u) for (x, u), (y, v) in zip(seen[ours], seen[nginx]))))
        own[name] = a_cpu
        print(f"| {name} | {a:,.0f} | {b:,.0f} | {rate:.2f} | {a_cpu:.1f} µs | {b_cpu:.1f} µs | {cpu:.2f} |",
              flush=True)
    tls, plain = list(own.values())[2:]
    print(f"\nA request with TLS takes {tls / plain:.2f} times the CPU of one without, in Drover. "
          f"`bench/http_tls.py DROVER --rounds {args.rounds} --seconds {args.seconds}`;\n"
          f"medians of alternating rounds. The load of the machine was {os.getloadavg()[0]:.0f} on {os.cpu_count()} "
          "processors: with more than 2, go by CPU,\nnot by the rates.")


def main():
    parser = argparse.ArgumentParser(description="TLS beside nginx.")
    parser.add_argument("drover")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drover-bench-") as name:
        directory = pathlib.Path(name)
        cert, key = make_certificate(directory)
        ours, nginx = start_both(args.drover, directory, cert, key)
        try:
            run(ours, nginx, cert, args)
        finally:
            ours.stop()
            nginx.stop()


if __name__ == "__main__":
    main()
