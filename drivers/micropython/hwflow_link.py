"""A driver for a board that runs a model made by hwflow, for MicroPython: frames in, results out.

    board = Link(port)                      # an object with exchange() and milliseconds(), as in pico_spi.py
    print(board.bytes_in, board.bytes_out)
    results = board.run(frames)             # bytes of whole frames in, bytes of their results out

What is lost or damaged on the line is sent again; results are those of the board, or BoardError is raised.  The
protocol is in docs/host-link.md (version 2).  The code runs in CPython too.
"""

import binascii

RESET, DATA, POLL, IDENTITY, STATUS, RESULT, MEMORY = 0x01, 0x02, 0x03, 0x81, 0x82, 0x83, 0x84
VERSION = 2
FLAG, ESCAPE = b"\x7e", b"\x7d"
#: Milliseconds until the board is asked again, until a silent one is given up, and one that does nothing.
ASK, SILENCE, STALL = 100, 3000, 30000
#: Packets under way at most, results that are acknowledged by themselves, STATUS without news that say that data were
#: lost, bytes that are listened to at a time.
MOST, PATIENT, STALE, PIECE = 64, 4, 2, 64


class BoardError(Exception):
    """The board cannot be reached, or no result of this run can be trusted; the message says why."""


class Link:
    """The board behind `port`, which has two methods.

    exchange(out, wanted): send the bytes `out`, and give what has come, at most `wanted` bytes.  On an SPI bus that is
    a transfer of `wanted` bytes, `out` first and 0x7E behind it; on a serial line it does not wait.
    milliseconds(): a clock.

    `design` are the 8 bytes of identity.json that the board must hold; None takes any.
    """

    def __init__(self, port, design=None):
        self.port = port
        self.begun = bytearray()
        self.asked = port.milliseconds() * 37 % 256
        self.sent = self.resent = self.repeated = self.dropped = self.polls = 0
        self.start()
        first = self.design
        self.start()
        if first != self.design or (design is not None and self.design != design):
            raise BoardError("the board must hold the design {}, not {}".format(design or first, self.design))

    # -- packets

    def send(self, kind, sequence=0, payload=b""):
        size = len(payload)
        body = bytes((kind, sequence, self.expected, size & 255, size >> 8)) + payload
        body += (binascii.crc32(body) & 0xFFFFFFFF).to_bytes(4, "little")
        data = FLAG + body.replace(ESCAPE, b"\x7d\x5d").replace(FLAG, b"\x7d\x5e") + FLAG
        self.sent += 1
        for at in range(0, len(data), PIECE):
            self.feed(self.port.exchange(data[at:at + PIECE], PIECE))

    def listen(self):
        self.feed(self.port.exchange(b"", PIECE))

    def feed(self, data):
        """Take what came, in pieces of any size."""
        pieces = data.split(FLAG)
        self.begun += pieces[0]
        for piece in pieces[1:]:
            escaped, self.begun = bytes(self.begun), bytearray(piece)
            if escaped:
                body = escaped.replace(b"\x7d\x5e", FLAG).replace(b"\x7d\x5d", ESCAPE)
                if self.whole(body):
                    self.heard = self.port.milliseconds()
                    self.take(body[0], body[1], body[2], body[5:-4])
                else:
                    self.dropped += 1
        if len(self.begun) > 4096:  # too long for a packet, whatever comes
            self.begun = self.begun[:4096]

    def whole(self, body):
        return (len(body) >= 9 and len(body) == 9 + body[3] + 256 * body[4]
                and binascii.crc32(body[:-4]) & 0xFFFFFFFF == int.from_bytes(body[-4:], "little"))

    def take(self, kind, sequence, acknowledge, payload):
        if kind == IDENTITY:
            self.take_identity(sequence, payload)
        elif self.awaiting:
            pass  # of a run before this one
        elif kind == STATUS and len(payload) == 2:
            self.take_status(acknowledge, int.from_bytes(payload, "little"))
        elif kind == RESULT and payload:
            self.take_result(sequence, payload)
        elif kind == MEMORY:
            raise BoardError("the memory of the board does not have its weights: fill it with `hwflow program`")
        else:
            self.dropped += 1

    def take_identity(self, sequence, payload):
        if not self.awaiting:
            raise BoardError("the board started anew, or another host uses it: run again")
        if sequence != self.asked or not payload:
            return
        if payload[0] != VERSION or len(payload) != 21:
            raise BoardError("the board speaks version {} of the protocol, not {}".format(payload[0], VERSION))
        self.design = payload[1:9]
        self.bytes_in, self.bytes_out = (int.from_bytes(payload[k:k + 4], "little") for k in (9, 13))
        self.room_of_all, self.largest = (int.from_bytes(payload[k:k + 2], "little") for k in (17, 19))
        self.awaiting = False

    def take_status(self, expected, room):
        arrived = (expected - self.sequence - self.base) % 256
        if arrived > self.fresh - self.base:
            raise BoardError("the board asks for data that were never sent to it: run again")
        self.room = room
        if arrived:
            self.base += arrived
            self.cursor = max(self.cursor, self.base)
            self.progressed()
        elif self.cursor == self.base:
            self.stale = 0
        elif self.late:  # the answer to one of those behind the lost one, which are sent again already
            self.late -= 1
        else:
            self.stale += 1
            if self.stale == STALE:
                self.late, self.stale, self.cursor = self.cursor - self.base, 0, self.base

    def take_result(self, sequence, payload):
        ahead = (sequence - self.expected) % 256
        if ahead >= 128:
            self.repeated += 1
        elif ahead:
            if self.gap != self.expected:  # asked for once; where the answer is lost, the clock asks again
                self.gap, self.missing = self.expected, True
        else:
            place = len(self.results) % self.bytes_out
            if len(self.results) + len(payload) > self.wanted or place + len(payload) > self.bytes_out:
                raise BoardError("the board sent results that were not asked for: run again")
            self.results += payload
            self.expected = (self.expected + 1) % 256
            self.owed += 1
            self.gap = None
            self.progressed()

    # -- a session

    def start(self):
        """RESET until the board answers."""
        self.sequence = self.expected = self.base = self.cursor = self.fresh = 0
        self.owed = self.stale = self.late = self.wanted = self.questions = 0
        self.results, self.gap, self.missing, self.awaiting, self.fine = bytearray(), None, False, True, True
        began = self.port.milliseconds()
        while self.awaiting:
            asked = self.port.milliseconds()
            if asked - began > SILENCE:
                raise BoardError("the board does not answer: is it powered, connected, and its bitstream loaded?")
            self.asked = (self.asked + 1) % 256
            self.send(RESET, self.asked)
            while self.awaiting and self.port.milliseconds() - asked < ASK:
                self.listen()
        self.room = self.room_of_all

    def reset_state(self):
        """Begin a new sequence, of a design that keeps a state from frame to frame and goes on from run to run."""
        self.start()

    def progressed(self):
        self.moved = self.timer = self.port.milliseconds()
        self.questions = self.stale = 0

    def run(self, frames):
        """The results of whole frames, in order."""
        if not frames or len(frames) % self.bytes_in:
            raise ValueError("frames must be of {} bytes each, not {} bytes".format(self.bytes_in, len(frames)))
        if not self.fine:
            self.start()
        self.fine = False
        count = -(-len(frames) // self.largest)
        self.sequence = (self.sequence + self.base) % 256
        self.base = self.cursor = self.fresh = 0
        self.results, self.wanted = bytearray(), len(frames) // self.bytes_in * self.bytes_out
        self.progressed()
        self.heard = self.moved
        while len(self.results) < self.wanted or self.base < count:
            if not self.send_data(frames, count):
                if self.owed and (self.cursor == self.base or self.owed >= PATIENT):
                    self.acknowledge()
                else:
                    self.listen()
            self.look_at_the_clock()
        if self.owed:
            self.acknowledge()
        self.fine = True
        return bytes(self.results)

    def send_data(self, frames, count):
        """The next packet of data, where there is one and the board has room for it."""
        payload = frames[self.cursor * self.largest:(self.cursor + 1) * self.largest]
        if (self.cursor == count or self.cursor - self.base >= MOST
                or (self.cursor - self.base) * self.largest + len(payload) > self.room):
            return False
        if self.cursor == self.base:
            self.timer = self.port.milliseconds()
        self.resent += self.cursor < self.fresh
        sequence = (self.sequence + self.cursor) % 256
        self.cursor += 1
        self.fresh = max(self.fresh, self.cursor)
        self.owed = 0
        self.send(DATA, sequence, payload)
        return True

    def acknowledge(self):
        """Say which results have come: DATA of a sequence that the board does not expect."""
        self.owed = 0
        self.send(DATA, (self.sequence + self.base - 128) % 256, b"\0")

    def poll(self):
        self.owed = 0
        self.polls += 1
        self.timer = self.port.milliseconds()
        self.send(POLL)

    def look_at_the_clock(self):
        """Ask where an answer is late; give up where too many are."""
        now = self.port.milliseconds()
        if now - self.heard > SILENCE and self.questions >= 3:
            raise BoardError("the board does not answer any more")
        if now - self.moved > STALL:
            raise BoardError("the board answers, but takes no data and gives no results: load its bitstream again")
        if self.missing:
            self.missing = False
            self.poll()
        elif now - self.timer >= min(ASK << min(self.questions, 3), SILENCE // 4):
            self.questions += 1
            self.late, self.stale, self.cursor = 0, 0, self.base
            self.poll()
