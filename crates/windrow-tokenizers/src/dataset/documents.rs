//! The documents of a shard, in order.

use std::io::{self, BufRead};
use std::num::NonZeroUsize;
use std::path::Path;

use crate::output::{Layout, mask_header};
use crate::shard::{BUFFER, DatasetError, Reading, Shard, Visitor};

/// A range of the documents of a shard.
pub(super) struct Stretch {
    /// A row group, or all documents.
    group: Option<usize>,
    /// Number of documents before the range.
    pub(super) begin: u64,
}

impl Stretch {
    pub(super) const WHOLE: Self = Self { group: None, begin: 0 };
}

impl Shard<'_> {
    /// The number of documents, if a file size gives it.
    pub(super) fn documents(&self) -> Result<Option<u64>, DatasetError> {
        self.options.format.files().documents(self)
    }

    /// The files with the places of a packed output's documents.
    pub(super) fn segment_paths(&self) -> [&Path; 2] {
        let end = self.paths.len() - usize::from(Layout::of(self.options).has_kept);
        [&self.paths[end - 2], &self.paths[end - 1]]
    }

    /// Ranges that can be walked independently, in order.
    pub(super) fn stretches(&self) -> Result<Vec<Stretch>, DatasetError> {
        let groups = self.options.format.files().groups(self)?;
        let mut begin = 0_u64;
        let stretch = |(group, rows)| {
            let stretch = Stretch { group: Some(group), begin };
            begin = begin.saturating_add(rows);
            stretch
        };
        let stretches: Vec<Stretch> = groups.into_iter().enumerate().map(stretch).collect();
        Ok(if stretches.is_empty() { vec![Stretch::WHOLE] } else { stretches })
    }

    /// [`walk`](Self::walk) over one range.
    pub(super) fn walk_stretch(&self, stretch: &Stretch, visit: Visitor<'_>) -> Result<(), DatasetError> {
        self.options.format.files().walk(self, stretch.group, visit)
    }

    /// Visits the documents, or the rows of a packed output, until the visitor breaks.
    pub(super) fn walk(&self, visit: Visitor<'_>) -> Result<(), DatasetError> {
        self.walk_stretch(&Stretch::WHOLE, visit)
    }

    /// The number of lines of the file with the kept fields, if there is one.
    pub(super) fn kept_lines(&self) -> Result<Option<u64>, DatasetError> {
        let Some(path) = self.paths.last().filter(|_| Layout::of(self.options).has_kept) else { return Ok(None) };
        let mut kept = Reading::open(path, 0)?;
        let mut lines = 0;
        loop {
            let block = match kept.file.fill_buf() {
                Ok([]) => return Ok(Some(lines)),
                Ok(block) => block,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(DatasetError::io(path, &error)),
            };
            lines += memchr::memchr_iter(b'\n', block).count() as u64;
            let read = block.len();
            kept.file.consume(read);
        }
    }

    /// The number of ids whose mask is 1, if the masks have a file. The file must have a mask for each of the `tokens`.
    pub(super) fn loss_tokens(&self, tokens: u64) -> Result<Option<u64>, DatasetError> {
        let layout = Layout::of(self.options);
        let Some(path) = self.paths.get(layout.own().len()).filter(|_| layout.has_mask) else { return Ok(None) };
        let header = |masks| mask_header(layout.format, self.options.pack.map(NonZeroUsize::get), masks);
        let mut masks = Reading::open(path, 0)?;
        let count = masks.elements(header(0).len(), 1)?;
        masks.check_header(&header(count))?;
        if count != tokens {
            let what = format!("its number of masks is {count}, but the number of ids is {tokens}");
            return Err(DatasetError::damaged(path, what));
        }
        let (mut ones, mut at, mut block) = (0, 0, vec![0; BUFFER]);
        while at < count {
            block.truncate((count - at).min(BUFFER as u64) as usize);
            masks.fill(&mut block)?;
            if let Some(wrong) = block.iter().position(|&one| one > 1) {
                let what = format!("mask {} is {}, which is neither 0 nor 1", at + wrong as u64, block[wrong]);
                return Err(DatasetError::damaged(path, what));
            }
            ones += block.iter().map(|&one| u64::from(one)).sum::<u64>();
            at += block.len() as u64;
        }
        Ok(Some(ones))
    }
}
