//! Placeholders for object stores, in a build without them.

use std::convert::Infallible;
use std::io::{self, Read};

use super::InputError;
use super::url::Url;

/// The stores of a run. None can be opened.
pub(super) struct Stores;

/// The result of a URL. No value exists without the feature `object-store`.
#[expect(dead_code, reason = "nothing is found")]
pub(super) enum Found {
    Object(Object),
    Folder(Vec<Object>),
}

/// A store object. No value exists without the feature `object-store`.
#[derive(Clone, Debug)]
pub(crate) struct Object(Infallible);

/// A reader of an object. No value exists without the feature `object-store`.
#[derive(Debug)]
pub(super) struct ObjectReader(Infallible);

pub(super) const READ_BYTES: usize = 0;
#[cfg(feature = "parquet")]
pub(super) const BLOCKS_BYTES: usize = 0;

impl Stores {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn find(&mut self, url: &Url) -> Result<Found, InputError> {
        let reason = "this build does not read object stores".to_owned();
        let hint = "cargo install windrow-cli --features object-store, or download it first";
        Err(InputError::Url { name: url.to_string(), reason, hint })
    }
}

impl Object {
    pub(crate) fn name(&self) -> String {
        match self.0 {}
    }

    pub(super) fn key(&self) -> &str {
        match self.0 {}
    }

    pub(crate) fn size(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn version(&self) -> Option<String> {
        match self.0 {}
    }

    pub(super) fn first(&self, _: u64) -> io::Result<Vec<u8>> {
        match self.0 {}
    }
}

impl ObjectReader {
    pub(super) fn new(object: Object) -> Self {
        match object.0 {}
    }

    pub(super) fn size(&self) -> u64 {
        match self.0 {}
    }

    pub(super) fn seek(&mut self, _: u64) {
        match self.0 {}
    }
}

impl Read for ObjectReader {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

#[cfg(feature = "parquet")]
pub(super) use blocks::{BlocksRead, ObjectBlocks};

#[cfg(feature = "parquet")]
mod blocks {
    use bytes::Bytes;

    use super::{Infallible, Object, Read, io};

    /// The blocks of an object. No value exists without the feature `object-store`.
    #[derive(Clone, Debug)]
    pub(in crate::input) struct ObjectBlocks(Infallible);

    /// A reader of blocks. No value exists without the feature `object-store`.
    #[derive(Debug)]
    pub(in crate::input) struct BlocksRead(Infallible);

    impl ObjectBlocks {
        pub(in crate::input) fn new(object: Object) -> Self {
            match object.0 {}
        }

        pub(in crate::input) fn size(&self) -> u64 {
            match self.0 {}
        }

        pub(in crate::input) fn take_failure(&self) -> Option<(u64, io::Error)> {
            match self.0 {}
        }

        pub(in crate::input) fn rest_of_block(&self, _: u64, _: bool) -> io::Result<Bytes> {
            match self.0 {}
        }

        pub(in crate::input) fn bytes(&self, _: u64, _: usize) -> io::Result<Bytes> {
            match self.0 {}
        }

        pub(in crate::input) fn read_from(&self, _: u64) -> BlocksRead {
            match self.0 {}
        }
    }

    impl Read for BlocksRead {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match self.0 {}
        }
    }
}
