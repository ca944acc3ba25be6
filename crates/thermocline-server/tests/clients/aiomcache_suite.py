"""aiomcache against a running server: every call of its client, alone and many at once."""

import asyncio
import sys

import aiomcache
from aiomcache.exceptions import ClientException

PORT = int(sys.argv[1])
CHECKS = 0


def check(condition, what):
    global CHECKS
    assert condition, what
    CHECKS += 1


async def basics(client):
    await client.flush_all()
    check(await client.get(b"key") is None, "miss")
    check(await client.set(b"key", b"value") is True, "set")
    check(await client.get(b"key") == b"value", "get")
    check(await client.multi_get(b"key", b"none") == (b"value", None), "multi_get")
    check(await client.add(b"key", b"x") is False, "add to an existing key")
    check(await client.add(b"new", b"x") is True, "add")
    check(await client.replace(b"none", b"x") is False, "replace a missing key")
    check(await client.replace(b"new", b"y") is True, "replace")
    check(await client.append(b"new", b"2") is True, "append")
    check(await client.prepend(b"new", b"1") is True, "prepend")
    check(await client.get(b"new") == b"1y2", "appended and prepended")
    check(await client.delete(b"new") is True, "delete")
    check(await client.delete(b"new") is False, "delete again")


async def tokens(client):
    await client.set(b"cas", b"1")
    value, token = await client.gets(b"cas")
    check(value == b"1", "gets")
    check(await client.cas(b"cas", b"2", token) is True, "cas")
    check(await client.cas(b"cas", b"3", token) is False, "stale cas")


async def numbers(client):
    await client.set(b"n", b"10")
    check(await client.incr(b"n", 5) == 15, "incr")
    check(await client.decr(b"n", 1) == 14, "decr")
    await client.set(b"text", b"abc")
    for key in (b"text", b"none"):
        try:
            await client.incr(key, 1)
        except ClientException:
            check(True, "incr of text or of nothing")
        else:
            check(False, "incr of text or of nothing must fail")


async def times(client):
    await client.set(b"t", b"x", exptime=1)
    check(await client.touch(b"t", 100) is True, "touch")
    check(await client.touch(b"none", 100) is False, "touch of nothing")
    await client.set(b"t", b"x", exptime=1)
    await asyncio.sleep(1.2)
    check(await client.get(b"t") is None, "expired")


async def server(client):
    stats = await client.stats()
    check(int(stats[b"curr_connections"]) >= 1, "stats")
    check(b"1.6" in await client.version(), "version")


async def many(client):
    async def one(number):
        key = b"many%d" % number
        await client.set(key, key * 100)
        return await client.get(key) == key * 100

    results = await asyncio.gather(*(one(number) for number in range(500)))
    check(all(results), "500 at once")


async def main():
    client = aiomcache.Client("127.0.0.1", PORT, pool_size=8)
    for suite in (basics, tokens, numbers, times, server, many):
        await suite(client)
    await client.close()
    print(f"aiomcache: {CHECKS} checks passed")


asyncio.run(main())
