"""A mail server that keeps nothing: prints one line a mail, and `again` when it knows its Message-ID.

`python sink.py PORT`; with `--lose-first` the connection ends before it has said that it took a mail.
"""

import re
import socketserver
import sys

seen = set()
lose = "--lose-first" in sys.argv


class Conversation(socketserver.StreamRequestHandler):
    def handle(self):
        self.say("220 sink")
        recipients = []
        while line := self.rfile.readline():
            verb = line[:4].upper().strip()
            if verb == b"RCPT":
                recipients.append(line.decode().partition("<")[2].partition(">")[0])
            if verb == b"DATA":
                self.say("354 go on")
                if not self.take(recipients):
                    return
            self.say("221 bye" if verb == b"QUIT" else "250 ok")
            if verb == b"QUIT":
                return

    def take(self, recipients):
        """Read one mail; False when the answer is to be lost."""
        global lose
        mail = b"".join(iter(self.rfile.readline, b".\r\n")).decode()
        message_id = re.search(r"^Message-ID: (\S+)", mail, re.MULTILINE | re.IGNORECASE)[1]
        again = "again " if message_id in seen else ""
        seen.add(message_id)
        print(f"{again}{message_id} to {', '.join(recipients)}", flush=True)
        kept, lose = not lose, False
        return kept

    def say(self, text):
        self.wfile.write(f"{text}\r\n".encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Conversation) as server:
        print(f"listening on port {server.server_address[1]}", flush=True)
        server.serve_forever()
