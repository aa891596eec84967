//! Simulated clients of Kestrel, in the text dialect.

use super::{Role, Writer, queue};
use crate::plan::{Plan, StorageKind};
use crate::rng::Rng;
use crate::workload::{body_len, random_bytes};

/// The longest item in a list of several. A whole list is far shorter than a segment.
const LISTED_BYTES_MAX: u64 = 2000;

const LISTED_ITEMS_MAX: u64 = 6;

impl Role {
    fn kinds_of_text(self) -> &'static [(u64, &'static str)] {
        match self {
            Self::Producer => &[(20, "put"), (20, "puts"), (2, "get"), (1, "peek"), (1, "version")],
            Self::Taker => {
                &[(20, "get"), (10, "get-wait"), (4, "peek"), (3, "monitor"), (3, "put")]
            }
            Self::Reader => &[
                (12, "get"),
                (10, "get-wait"),
                (6, "monitor"),
                (10, "confirm"),
                (2, "peek"),
                (3, "peek-wait"),
            ],
            Self::Admin => &[
                (4, "delete"),
                (5, "flush"),
                (3, "status"),
                (6, "status-up"),
                (1, "status-strict"),
                (8, "peek"),
                (6, "puts"),
                (2, "quit"),
            ],
        }
    }
}

impl Writer<'_> {
    pub(crate) fn text_request(&mut self, role: Role, bytes: &mut Vec<u8>) {
        let mut kind = self.rng.weighted(role.kinds_of_text());
        if kind.starts_with("put") && self.plan.scarce && self.rng.below(3) > 0 {
            kind = "peek";
        }
        let queue = queue(self.plan, self.rng);
        let wait = *self.rng.pick(&[1, 30, 300, 1000, 5000]);
        let text = match kind {
            "put" | "puts" => return self.put(queue, kind == "puts", bytes),
            "get-wait" => format!("get {queue} {wait}"),
            "peek-wait" => format!("PEEK {queue} {wait}"),
            "monitor" => format!("monitor {queue} {}", *self.rng.pick(&[0, 1, 100, 1000])),
            "confirm" => format!("confirm {queue} {}", *self.rng.pick(&[0, 1, 1, 1, 2, -1])),
            "get" | "peek" | "delete" | "flush" => format!("{kind} {queue}"),
            "status-up" | "status-strict" => self.change_of_status(kind),
            kind => kind.to_owned(),
        };
        bytes.extend_from_slice(text.as_bytes());
        self.end_line(bytes);
    }

    fn put(&mut self, queue: &str, is_list: bool, bytes: &mut Vec<u8>) {
        // As in `set`, runs with policies have no items that are already expired at their put.
        let may_be_late = self.plan.weights.policies == 0;
        let expiry = match self.rng.below(8) {
            0 if may_be_late => " -1".to_owned(),
            0 | 1 => format!(" {}", self.rng.below(3000)),
            2 => " 3600000".to_owned(),
            _ => String::new(),
        };
        bytes.extend_from_slice(format!("put {queue}{expiry}:").as_bytes());
        self.end_line(bytes);
        if is_list {
            self.list(bytes);
        } else {
            let len = body_len(self.plan, self.rng);
            self.item(len, bytes);
        }
        self.end_line(bytes);
    }

    fn list(&mut self, bytes: &mut Vec<u8>) {
        let most = self.plan.body_bytes.min(LISTED_BYTES_MAX);
        let len = self.rng.below(most + 1);
        // If the log can be full, all items have the same length. The model cannot compute which
        // items of different lengths a full log refuses.
        let are_alike = has_trouble_with_room(self.plan);
        for _ in 0..self.rng.below(LISTED_ITEMS_MAX + 1) {
            let len = if are_alike { len } else { self.rng.below(most + 1) };
            self.item(len, bytes);
        }
    }

    /// A line that is not empty and contains no line end.
    fn item(&mut self, len: u64, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        random_bytes(bytes, len.max(1), self.rng);
        for byte in &mut bytes[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b':';
            }
        }
        self.end_line(bytes);
    }
}

fn has_trouble_with_room(plan: &Plan) -> bool {
    plan.storage != StorageKind::Memory && !plan.has_policies()
}

pub(in crate::workload) fn garbage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    const LINES: [&[u8]; 14] = [
        b"\r\n",
        b":\n\n",
        b"get\r\n",
        b"get  a\n",
        b"get a:\nx\n\n",
        b"get a x\n",
        b"peek a 2147483648\n",
        b"put a\n",
        b"put a x:\nabc\n\n",
        b"put:\nabc\n\n",
        b"confirm a\n",
        b"confirm a x\n",
        b"monitor a\n",
        b"Nonsense a\n",
    ];
    bytes.extend_from_slice(LINES[rng.index(LINES.len())]);
}

/// The length of the first whole reply. If an item from another protocol contains a line end, the
/// reply counts as several replies.
pub(in crate::workload) fn reply_len(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
}
