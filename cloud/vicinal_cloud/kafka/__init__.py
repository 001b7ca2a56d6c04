"""Event logs on Kafka (DESIGN 7), for those who outgrow one machine. README.md beside this file says why it is so.

    Mirror          follows the log of a broker, and puts each event into a topic, once
    KafkaWriter     a topic, open for appending: a batch and how far it reaches in one transaction, or neither
    KafkaReader     a topic by partition and offset, with filters, as LogReader reads a directory
    Message         what an event is there: key, value, headers

confluent-kafka (the extra `kafka`) is imported by the modules that need it, and not here.
"""

from .cursor import Cursor
from .errors import Fenced, KafkaFailed, NotTheLog
from .message import Message, lost_message, message_of, record_of

__all__ = ["Cursor", "Fenced", "KafkaFailed", "Message", "NotTheLog", "lost_message", "message_of", "record_of"]
