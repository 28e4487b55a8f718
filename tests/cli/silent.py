"""silent.py COUNT WHAT CMD... - CMD with a server that is silent after so many packets: what is in front of $ZKLOCK_SERVERS passes no more of them,
nor anything to the server. WHAT is term: as soon as CMD has asked something in silence it gets SIGTERM; or stay. Ends as CMD does."""
import os
import socket
import struct
import subprocess
import sys
import threading

host, port = os.environ["ZKLOCK_SERVERS"].rsplit(":", 1)
most, passed = int(sys.argv[1]), 0


def to_server(client, server):
    while data := client.recv(65536):
        if passed <= most:
            server.sendall(data)
        if passed >= most and sys.argv[2] == "term":
            command.terminate()


def take(server, size):
    data = b""
    while len(data) < size:
        data += server.recv(size - len(data)) or sys.exit()
    return data


def to_client(client, server):
    global passed
    while True:
        size = take(server, 4)
        packet = size + take(server, struct.unpack(">i", size)[0])
        passed += 1
        if passed <= most:
            client.sendall(packet)


def accept():
    while True:
        ends = listener.accept()[0], socket.create_connection((host, int(port)))
        for function in to_server, to_client:
            threading.Thread(target=function, args=ends, daemon=True).start()


listener = socket.create_server(("127.0.0.1", 0))
os.environ["ZKLOCK_SERVERS"] = "127.0.0.1:%d" % listener.getsockname()[1]
command = subprocess.Popen(sys.argv[3:])
threading.Thread(target=accept, daemon=True).start()
code = command.wait()
os._exit(code if code >= 0 else 128 - code)
