"""pymemcache against a running server: every call of its client, and its pooled and retrying wrappers."""

import sys
import time

from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnknownCommandError,
)

SERVER = ("127.0.0.1", int(sys.argv[1]))
CHECKS = 0


def check(condition, what):
    global CHECKS
    assert condition, what
    CHECKS += 1


def basics(client):
    client.flush_all()
    check(client.get("key") is None, "miss")
    check(client.get("key", default=b"x") == b"x", "default")
    check(client.set("key", b"value", noreply=False) is True, "set")
    check(client.get("key") == b"value", "get")
    check(client.add("key", b"other", noreply=False) is False, "add to an existing key")
    check(client.add("key2", b"two", noreply=False) is True, "add")
    check(client.replace("missing", b"x", noreply=False) is False, "replace a missing key")
    check(client.replace("key2", b"zwei", noreply=False) is True, "replace")
    check(client.append("key", b"!", noreply=False) is True, "append")
    check(client.prepend("key", b"?", noreply=False) is True, "prepend")
    check(client.get("key") == b"?value!", "appended and prepended")
    check(client.get_many(["key", "key2", "nope"]) == {"key": b"?value!", "key2": b"zwei"}, "get_many")
    check(client.set_many({"a": b"1", "b": b"2"}, noreply=False) == [], "set_many")
    check(client.get_many(["a", "b"]) == {"a": b"1", "b": b"2"}, "set_many stored")
    check(client.delete("a", noreply=False) is True, "delete")
    check(client.delete("a", noreply=False) is False, "delete again")
    check(client.delete_many(["b", "key2"]) is True, "delete_many")
    check(client.get("b") is None, "deleted")
    check(client.set("empty", b"", noreply=False) is True, "empty value")
    check(client.get("empty") == b"", "empty value comes back")


def tokens(client):
    client.set("cas", b"1", noreply=False)
    value, token = client.gets("cas")
    check(value == b"1", "gets")
    check(client.cas("cas", b"2", token, noreply=False) is True, "cas")
    check(client.cas("cas", b"3", token, noreply=False) is False, "stale cas")
    check(client.cas("nocas", b"3", token, noreply=False) is None, "cas of nothing")
    many = client.gets_many(["cas"])
    check(many["cas"][0] == b"2" and many["cas"][1] != token, "gets_many")


def numbers(client):
    client.set("n", b"10", noreply=False)
    check(client.incr("n", 5, noreply=False) == 15, "incr")
    check(client.decr("n", 20, noreply=False) == 0, "decr stops at 0")
    check(client.incr("non", 1, noreply=False) is None, "incr of nothing")
    client.set("text", b"abc", noreply=False)
    try:
        client.incr("text", 1, noreply=False)
        check(False, "incr of text must fail")
    except MemcacheClientError as error:
        check("non-numeric" in str(error), "incr of text")


def times(client):
    check(client.set("t", b"x", expire=1, noreply=False) is True, "with expiry")
    check(client.touch("t", 100, noreply=False) is True, "touch")
    check(client.touch("not", 100, noreply=False) is False, "touch of nothing")
    if hasattr(client, "gat"):
        check(client.gat("t", expire=100) == b"x", "gat")
        check(client.gats("t", expire=100)[0] == b"x", "gats")
    check(client.touch("t", 1, noreply=False) is True, "touch again")
    time.sleep(1.2)
    check(client.get("t") is None, "expired")


def limits(client):
    big = b"x" * (1 << 20)
    try:
        client.set("big", big, noreply=False)
        check(False, "a value over the limit must be refused")
    except MemcacheServerError as error:
        check("too large" in str(error), "over the limit")
    most = b"x" * 1_048_000
    check(client.set("most", most, noreply=False) is True, "near the limit")
    check(client.get("most") == most, "comes back whole")
    try:
        client.get("k" * 251)
        check(False, "a long key must be refused")
    except MemcacheIllegalInputError:
        check(True, "long key")
    try:
        client.raw_command(b"nosuchcommand")
        check(False, "an unknown command must be refused")
    except MemcacheUnknownCommandError:
        check(True, "unknown command")


def server(client):
    stats = client.stats()
    check(stats[b"curr_items"] >= 1, "stats")
    check(b"1.6" in client.version(), "version")
    check(client.stats("settings")[b"item_size_max"] == 1 << 20, "stats settings")
    check(client.cache_memlimit(64) is True, "cache_memlimit")
    check(client.flush_all(noreply=False) is True, "flush_all")
    check(client.get("most") is None, "flushed")


def main():
    client = Client(SERVER, default_noreply=False, timeout=20)
    for suite in (basics, tokens, numbers, times, limits, server):
        suite(client)
    client.close()
    pooled = PooledClient(SERVER, max_pool_size=4, timeout=20)
    for suite in (basics, tokens, numbers):
        suite(pooled)
    hashed = HashClient([SERVER], timeout=20)
    hashed.set("hashed", b"v", noreply=False)
    check(hashed.get("hashed") == b"v", "hash client")
    check(hashed.get_many(["hashed"]) == {"hashed": b"v"}, "hash client get_many")
    print(f"pymemcache: {CHECKS} checks passed")


main()
