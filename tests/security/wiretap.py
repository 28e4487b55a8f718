"""wiretap.py PORT-FILE TO FILE: listens on a free port of loopback, which it writes to PORT-FILE, passes everything on to port TO, and
writes what it hears, of both directions, to FILE."""
import os
import socket
import sys
import threading


def pump(source, sink, tape):
    try:
        while data := source.recv(65536):
            tape.write(data)
            tape.flush()
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main(port_file, to, file):
    with open(file, "ab", buffering=0) as tape:
        listener = socket.create_server(("127.0.0.1", 0))
        with open(port_file + ".new", "w") as out:
            print(listener.getsockname()[1], file=out)
        os.rename(port_file + ".new", port_file)
        while True:
            client, _ = listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", int(to)))
            except OSError:
                client.close()
                continue
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=(*pair, tape), daemon=True).start()


main(*sys.argv[1:])
