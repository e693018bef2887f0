//! Documents that are appended part by part.

use super::error::OutputError;
use super::run::Frame;
use super::shards::{bytes_of_document, bytes_of_ids};
use super::{Open, Output};

impl Output {
    /// Appends a part of a document, which it ends if `ends` is set. A document in parts becomes the same bytes as one that is appended whole.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// output.append_part(&[7, 8], false)?;
    /// output.append_part(&[9], true)?;
    /// assert_eq!((output.documents(), output.tokens()), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`append`](Self::append). After [`Id`](super::OutputErrorKind::Id) and [`Document`](super::OutputErrorKind::Document) the parts before are still
    /// there, and nothing of this one: only [`discard_parts`](Self::discard_parts) can follow.
    ///
    /// # Panics
    /// If the output has masks.
    pub fn append_part(&mut self, ids: &[u32], ends: bool) -> Result<(), OutputError> {
        assert!(!self.options.mask, "parts without masks");
        self.staging.check()?;
        let Frame { bos, eos } = self.frame();
        if self.open.is_none() {
            self.begin_document()?;
        }
        let writer = self.writer.as_mut().expect("present until published");
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let mark = writer.mark()?;
                writer.append_part(bos.as_slice())?;
                Open { mark, ids: bos.as_slice().len(), bytes: bytes_of_ids(self.dtype, bos.as_slice()) }
            }
        };
        let length = open.ids + ids.len() + usize::from(eos.is_some());
        let bytes = open.bytes + bytes_of_ids(self.dtype, ids);
        self.open = Some(open);
        self.refuse_long(self.documents, length)?;
        self.refuse_unfit(ids, &[])?;
        let writer = self.writer.as_mut().expect("present until published");
        writer.append_part(ids)?;
        self.open.iter_mut().for_each(|open| (open.ids, open.bytes) = (open.ids + ids.len(), bytes));
        if ends {
            writer.end_parts(length, eos)?;
            self.open = None;
            self.documents += 1;
            self.tokens += length as u64;
            if let Some(shards) = &mut self.shards {
                let bytes = bytes + bytes_of_ids(self.dtype, eos.as_slice());
                shards.add(1, bytes_of_document(self.dtype, bytes, length == 0));
            }
        }
        Ok(())
    }

    /// Removes the parts of a document that has not ended, as if it had never begun.
    ///
    /// ```
    /// use windrow_tokenizers::output::{Output, OutputOptions};
    ///
    /// let directory = tempfile::tempdir()?;
    /// let mut output = Output::create(&OutputOptions::new(directory.path().join("corpus"), 300))?;
    /// output.append_part(&[7, 8], false)?;
    /// output.discard_parts()?; // its end turns out to be bad
    /// output.append(&[9], &[1])?;
    /// assert_eq!((output.documents(), output.tokens()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`append`](Self::append): [`Io`](super::OutputErrorKind::Io), [`Interrupted`](super::OutputErrorKind::Interrupted).
    pub fn discard_parts(&mut self) -> Result<(), OutputError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.writer.as_mut().expect("present until published").return_to(open.mark)
    }
}
