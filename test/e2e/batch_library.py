"""What the library of the batch document's authors does to the tree, step by step, with kazoo.

Each operation is a generator that yields after each change: there are no transactions, so a client can
die at each of these points. `run` goes through, or stops after so many steps and dies, which ends its locks.
"""

import json
import time

from kazoo.exceptions import NodeExistsError, NoNodeError

ENDS = {"Failed": "batch-failed", "Completed": "batch-completed", "Deleted": "batch-deleted"}
LISTS = ["batch-processing", *ENDS.values()]
FINAL = ("Completed", "Deleted")
STEPS = ["Pending", "Estimating", "Provisioning", "Downloading", "Processing", "Recording", "Notify",
         "Completed"]


class Library:
    def __init__(self, client):
        self.client = client
        self.locks = []

    def run(self, steps, stop=None):
        """The result of an operation, or None if it was stopped; self.steps counts."""
        self.steps = 0
        try:
            while stop is None or self.steps < stop:
                next(steps)
                self.steps += 1
        except StopIteration as end:
            return end.value
        self.die()
        return None

    def die(self):
        for path in self.locks:
            if self.client.exists(path):
                self.client.delete(path)
        self.locks = []

    # Nodes.

    def read(self, path):
        return json.loads(self.client.get(path)[0])

    def status(self, path):
        return self.read(f"{path}/status")["status"]

    def children(self, path):
        return sorted(self.client.get_children(path)) if self.client.exists(path) else []

    def create_if_needed(self, path):
        if not self.client.exists(path):
            self.client.create(path, b"")

    def set_status(self, path, state, **more):
        """Every member that is there stays."""
        there = self.client.exists(f"{path}/status")
        value = {**(self.read(f"{path}/status") if there else {}), "status": state,
                 "last_modified": time.strftime("%Y-%m-%d %H:%M:%S +0000"), "message": "", **more}
        data = json.dumps(value).encode()
        self.client.set(f"{path}/status", data) if there else self.client.create(f"{path}/status", data)

    def lock(self, path):
        try:
            self.client.create(f"{path}/lock", b"", ephemeral=True)
        except NodeExistsError:
            return False
        self.locks.append(f"{path}/lock")
        return True

    def unlock(self, path):
        self.locks.remove(f"{path}/lock")
        self.client.delete(f"{path}/lock")

    def delete_all(self, path):
        for child in self.children(path):
            yield from self.delete_all(f"{path}/{child}")
        self.client.delete(path)
        yield

    # Batches.

    def create_batch(self, **submission):
        path = self.client.create("/batches/bid", b"", sequence=True)
        self.made = bid = path.rsplit("/", 1)[1]
        yield
        if "batchID" in submission:
            self.client.create(f"/batch-uuids/{submission['batchID']}", bid.encode())
            yield
        self.client.create(f"{path}/submission", json.dumps(submission).encode())
        yield
        self.set_status(path, "Pending")
        yield
        return bid

    def pending(self):
        """Those that it would take."""
        return [bid for bid in self.children("/batches")
                if not self.client.exists(f"/batches/{bid}/states")]

    def acquire_batch(self, only=None):
        for bid in self.pending():
            path = f"/batches/{bid}"
            if (only and bid != only) or not self.lock(path):
                continue
            yield
            assert self.status(path) == "Pending", f"{bid} is {self.status(path)}"
            self.client.create(f"{path}/states", b"")
            yield
            self.set_status(path, "Processing")
            yield
            return bid
        return None

    def report_batch(self, only=None):
        """Takes a batch whose jobs have ended, and commits its report."""
        for bid in self.children("/batches"):
            path = f"/batches/{bid}"
            if (only and bid != only) or not self.client.exists(f"{path}/states/batch-processing") \
                    or self.children(f"{path}/states/batch-processing") \
                    or self.status(path) in ("Completed", "Failed") or not self.lock(path):
                continue
            yield
            assert self.status(path) in ("Processing", "Reporting")
            self.set_status(path, "Reporting")
            yield
            failed = self.children(f"{path}/states/batch-failed")
            self.set_status(path, "Failed" if failed else "Completed")
            yield
            self.unlock(path)
            yield
            return bid
        return None

    def delete_batch(self, bid):
        path = f"/batches/{bid}"
        assert self.status(path) in FINAL
        for name in LISTS:
            for jid in self.children(f"{path}/states/{name}"):
                yield from self.delete_job(jid)
        uuid = self.read(f"{path}/submission").get("batchID")
        if uuid:
            self.client.delete(f"/batch-uuids/{uuid}")
            yield
        yield from self.delete_all(path)

    # Jobs.

    def entry(self, jid):
        """Its entry in the list of its state, by its status and its priority."""
        priority = int(self.client.get(f"/jobs/{jid}/priority")[0])
        return f"/jobs/states/{self.status(f'/jobs/{jid}').lower()}/{priority:02}-{jid}"

    def batch_entry(self, jid):
        bid = self.client.get(f"/jobs/{jid}/bid")[0].decode()
        name = ENDS.get(self.status(f"/jobs/{jid}"), "batch-processing")
        return f"/batches/{bid}/states/{name}/{jid}"

    def enter(self, path):
        """The list is made when it is first needed; what is above it is there."""
        self.create_if_needed(path.rsplit("/", 1)[0])
        self.create_if_needed(path)

    def create_job(self, bid, **configuration):
        path = self.client.create("/jobs/jid", b"", sequence=True)
        self.made = jid = path.rsplit("/", 1)[1]
        yield
        self.lock(path)
        yield
        for name, data in (("bid", bid), ("priority", "5"), ("space_needed", "0"),
                           ("configuration", json.dumps(configuration))):
            self.client.create(f"{path}/{name}", data.encode())
            yield
        self.set_status(path, "Pending", last_successful_status=None, retry_count=0)
        yield
        self.enter(self.entry(jid))
        yield
        self.enter(self.batch_entry(jid))
        yield
        self.unlock(path)
        yield
        return jid

    def move_job(self, jid, state):
        """It takes the job out of the list of its batch, and puts it back, even if that is the same."""
        path = f"/jobs/{jid}"
        old, entry, batch_entry = self.status(path), self.entry(jid), self.batch_entry(jid)
        assert self.lock(path)
        yield
        self.set_status(path, state, last_successful_status=old)
        yield
        for was, now in ((entry, self.entry(jid)), (batch_entry, self.batch_entry(jid))):
            if self.client.exists(was):
                self.client.delete(was)
            yield
            self.enter(now)
            yield
        self.unlock(path)
        yield

    def acquire_job(self, state):
        for entry in self.children(f"/jobs/states/{state.lower()}"):
            if self.lock(f"/jobs/{entry[3:]}"):
                yield
                assert self.status(f"/jobs/{entry[3:]}") == state
                return entry[3:]
        return None

    def delete_job(self, jid):
        assert self.status(f"/jobs/{jid}") in FINAL
        for path in (self.entry(jid), self.batch_entry(jid)):
            if self.client.exists(path):
                self.client.delete(path)
            yield
        yield from self.delete_all(f"/jobs/{jid}")

    # Access items.

    def create_access(self, queue, **token):
        path = self.client.create(f"/access/{queue}/qid", b"", sequence=True)
        self.made = qid = path.rsplit("/", 1)[1]
        yield
        self.client.create(f"{path}/token", json.dumps(token).encode())
        yield
        self.set_status(path, "Pending")
        yield
        return qid

    def acquire_access(self, queue, only=None):
        for qid in self.children(f"/access/{queue}"):
            path = f"/access/{queue}/{qid}"
            if (only and qid != only) or self.status(path) != "Pending" or not self.lock(path):
                continue
            yield
            self.set_status(path, "Processing")
            yield
            return qid
        return None

    def delete_access(self, queue, qid):
        assert self.status(f"/access/{queue}/{qid}") in FINAL
        yield from self.delete_all(f"/access/{queue}/{qid}")


def exists_or_none(read, *arguments):
    try:
        return read(*arguments)
    except NoNodeError:
        return None
