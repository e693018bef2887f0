//! An object that is read from front to back, with some parts requested before they are needed.

use std::collections::VecDeque;
use std::io::{self, Read};

use bytes::Bytes;

use super::driver::Pending;
use super::{Object, PART, Permit};

/// Reads an object.
#[derive(Debug)]
pub(in crate::input) struct ObjectReader {
    object: Object,
    /// The rest of the part that is being read.
    rest: Bytes,
    /// Parts that were requested, in order.
    requested: VecDeque<(Pending<io::Result<Bytes>>, Option<Permit>)>,
    /// The start of the next request.
    next: u64,
}

impl ObjectReader {
    pub(in crate::input) fn new(object: Object) -> Self {
        Self { object, rest: Bytes::new(), requested: VecDeque::new(), next: 0 }
    }

    pub(in crate::input) fn size(&self) -> u64 {
        self.object.size()
    }

    /// Continues at this position.
    pub(in crate::input) fn seek(&mut self, to: u64) {
        *self = Self { next: to, ..Self::new(self.object.clone()) };
    }

    /// Requests the next parts: one in any case, and more while other objects leave some.
    fn request(&mut self) {
        while self.next < self.object.size() {
            let permit = match self.requested.is_empty() {
                true => None,
                false => match self.object.store.ahead.permit() {
                    None => return,
                    permit => permit,
                },
            };
            let end = (self.next + PART).min(self.object.size());
            self.requested.push_back((self.object.begin(self.next..end), permit));
            self.next = end;
        }
    }
}

impl Read for ObjectReader {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            self.request();
            // The old part is dropped before the next one arrives.
            self.rest = Bytes::new();
            let Some((part, permit)) = self.requested.pop_front() else { return Ok(0) };
            self.rest = self.object.answer(part)?;
            drop(permit);
            self.request();
        }
        let n = dst.len().min(self.rest.len());
        dst[..n].copy_from_slice(&self.rest.split_to(n));
        Ok(n)
    }
}
