"""Sends what is in the outbox."""

import os
import smtplib
from dataclasses import dataclass
from email.message import EmailMessage

import runner

tasks = runner.Registry()


@tasks.task(max_attempts=20, timeout="1m")
@dataclass
class SendMail:
    """One message of the outbox, once it is known not to have been sent."""

    message: int

    def process(self, tx, task):
        row = tx.execute(
            "select recipient, subject, body from outbox"
            " where message_id = %s and sent_at is null for update",
            [self.message],
        ).fetchone()
        if row is None:
            return
        deliver(f"<outbox-{self.message}@example.com>", *row)
        tx.execute("update outbox set sent_at = now() where message_id = %s", [self.message])


def deliver(message_id, recipient, subject, body):
    mail = EmailMessage()
    mail["Message-ID"], mail["From"] = message_id, "shop@example.com"
    mail["To"], mail["Subject"] = recipient, subject
    mail.set_content(body)
    host, port = os.environ.get("SMTP_HOST", "127.0.0.1"), int(os.environ.get("SMTP_PORT", "25"))
    with smtplib.SMTP(host, port, timeout=10) as server:
        server.send_message(mail)
