#!/usr/bin/python3
"""A TCP proxy between ZooKeeper's clients and a server that knows where requests and replies begin,
and can lose exactly the one that a test is about.

    with Proxy(server_port) as p:
        client.connect(p.port)
        p.swallow(MULTI)        # the next one happens, its reply is lost with the connection
        p.lose(MULTI)           # the next one does not reach the server; the connection is cut
        p.late(MULTI, 0.5)      # the connection is cut, and yet the server gets the request later
        p.pause(EXISTS, 0.5)    # the next one, and what is behind it, takes that long
        p.cut()                 # all connections, now
        p.refuse = True         # no new ones
        p.hold = True           # connections stay, nothing passes
        p.delay_s = 0.05        # of each reply
        p.chaos(seed, 0.01)     # any frame may cut its connection, before or after it was forwarded

Runs an event loop in a thread of its own. From the shell: proxy.py SERVER_PORT [CHAOS [SEED]] prints
its port and runs until its input ends.
"""

import asyncio
import random
import struct
import sys
import threading

from wait import DEADLINE_S, wait_until

CREATE, DELETE, EXISTS, GET, SET, SYNC, PING = 1, 2, 3, 4, 5, 9, 11
CHILDREN2, MULTI, CREATE2, CLOSE = 12, 14, 15, -11
CHANGES = {CREATE, DELETE, SET, MULTI, CREATE2}


class Connection:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, proxy, client_reader, client_writer):
        self.proxy = proxy
        self.client_reader, self.client_writer = client_reader, client_writer
        self.server_writer = None
        self.server_gone = asyncio.Event()
        self.swallowed = set()  # xids whose reply ends the connection
        self.keep_server = False

    def cut(self):
        # abort, not close: what is still in our buffers is lost as well.
        self.client_writer.transport.abort()
        if self.server_writer and not self.keep_server:
            self.server_writer.transport.abort()

    async def run(self):
        try:
            server_reader, self.server_writer = await asyncio.open_connection(
                "127.0.0.1", self.proxy.server_port)
        except OSError:
            self.cut()
            return
        tasks = [asyncio.ensure_future(self.pump(self.client_reader, self.server_writer, True)),
                 asyncio.ensure_future(self.pump(server_reader, self.client_writer, False))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.cut()
        if self.keep_server:
            await self.outlive(server_reader, tasks)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def outlive(self, server_reader, tasks):
        """The client is gone; reads what the server still says, until it closes."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            while await server_reader.read(65536):
                pass
        except OSError:
            pass
        self.server_gone.set()

    async def pump(self, reader, writer, is_request):
        first = True
        try:
            while True:
                head = await reader.readexactly(4)
                frame = head + await reader.readexactly(struct.unpack(">i", head)[0])
                await self.proxy.held(frame if is_request and not first else None)
                forward = True if first else await self.judge(frame, is_request)
                first = False
                if forward is None:
                    return
                writer.write(frame)
                await writer.drain()
                if not forward:
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass

    async def judge(self, frame, is_request):
        """True: forward. False: forward, then cut. None: cut."""
        if not is_request:
            if self.proxy.delay_s:
                await asyncio.sleep(self.proxy.delay_s)
            xid = struct.unpack(">i", frame[4:8])[0]
            if xid in self.swallowed:
                self.proxy.count += 1
                return None
            return self.proxy.roll()
        xid, opcode = struct.unpack(">ii", frame[4:12])
        rule = self.proxy.match(opcode)
        if rule == "lose":
            self.proxy.count += 1
            return None
        if rule == "swallow":
            self.swallowed.add(xid)
            return True
        if rule and rule[0] == "late":
            self.keep_server = True
            self.proxy.count += 1
            asyncio.ensure_future(self.forward_late(frame, rule[1]))
            return None
        if rule and rule[0] == "pause":
            self.proxy.count += 1
            await asyncio.sleep(rule[1])
            return True
        return self.proxy.roll()

    async def forward_late(self, frame, delay_s):
        """The server has read it when it closes: it finds the end of the connection behind it."""
        await asyncio.sleep(delay_s)
        try:
            self.server_writer.write(frame)
            self.server_writer.write_eof()
            await asyncio.wait_for(self.server_gone.wait(), DEADLINE_S)
        except OSError:
            pass  # it did not listen any more
        finally:
            self.server_writer.transport.abort()
            self.proxy.late_count += 1


class Proxy:
    def __init__(self, server_port):
        self.server_port = server_port
        self.port = self.server = None
        self.refuse = self.hold = False
        self.delay_s = 0
        self.count = 0  # faults so far
        self.late_count = 0  # of these, requests that have gone out late
        self.held_opcodes = set()  # of requests that have come while hold is set
        self.rules = []
        self.connections = set()
        self.random, self.probability = None, 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.main, daemon=True)
        self.ready = threading.Event()

    def main(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.listen())
        self.ready.set()
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.server.close()
        self.loop.run_until_complete(self.server.wait_closed())
        self.loop.close()

    async def listen(self):
        self.server = await asyncio.start_server(self.accept, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def accept(self, reader, writer):
        connection = Connection(self, reader, writer)
        if self.refuse:
            connection.cut()
            return
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)

    async def held(self, request):
        if self.hold and request:
            self.held_opcodes.add(struct.unpack(">i", request[8:12])[0])
        while self.hold:
            await asyncio.sleep(0.005)
        self.held_opcodes.clear()

    def match(self, opcode):
        for i, (opcodes, rule) in enumerate(self.rules):
            if opcode in opcodes:
                del self.rules[i]
                return rule
        return None

    def roll(self):
        if not self.probability or self.random.random() >= self.probability:
            return True
        self.count += 1
        return self.random.choice([False, None])

    def add(self, opcodes, rule, times):
        opcodes = opcodes if isinstance(opcodes, set) else {opcodes}
        self.rules += [(opcodes, rule)] * times

    def swallow(self, opcodes, times=1):
        self.add(opcodes, "swallow", times)

    def lose(self, opcodes, times=1):
        self.add(opcodes, "lose", times)

    def late(self, opcodes, delay_s):
        self.add(opcodes, ("late", delay_s), 1)

    def wait_late(self, count):
        """Until that many late requests have been with the server."""
        wait_until(lambda: self.late_count >= count, "requests that come late")

    def wait_held(self, opcodes):
        """Until a request of one of these kinds has come, while hold is set."""
        wait_until(lambda: self.held_opcodes & opcodes, "a request that is held")

    def pause(self, opcodes, delay_s):
        self.add(opcodes, ("pause", delay_s), 1)

    def chaos(self, seed, probability):
        self.random, self.probability = random.Random(seed), probability

    def calm(self):
        self.probability = 0
        self.rules = []

    def cut(self):
        def cut_all():
            for connection in list(self.connections):
                connection.cut()
        self.loop.call_soon_threadsafe(cut_all)

    def __enter__(self):
        self.thread.start()
        self.ready.wait()
        return self

    def __exit__(self, *_):
        self.refuse, self.hold = True, False
        self.cut()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


def main():
    with Proxy(int(sys.argv[1])) as proxy:
        if len(sys.argv) > 2:
            proxy.chaos(int(sys.argv[3]) if len(sys.argv) > 3 else 1, float(sys.argv[2]))
        print(proxy.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
