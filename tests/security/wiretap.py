"""wiretap.py PORT-FILE TO FILE: listens on a free port of loopback, which it writes to PORT-FILE, passes everything on to port TO, and
writes what it hears, of both directions, to FILE."""
import asyncio
import os
import sys

port_file, to, file = sys.argv[1:]


async def pump(reader, writer):
    with open(file, "ab") as tape:
        while data := await reader.read(65536):
            tape.write(data)
            tape.flush()
            writer.write(data)
            await writer.drain()
    writer.close()


async def on_connection(reader, writer):
    try:
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", int(to))
        await asyncio.gather(pump(reader, server_writer), pump(server_reader, writer))
    except OSError:
        writer.close()


async def main():
    listener = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    with open(port_file + ".new", "w") as out:
        print(listener.sockets[0].getsockname()[1], file=out)
    os.rename(port_file + ".new", port_file)
    await listener.serve_forever()


asyncio.run(main())
