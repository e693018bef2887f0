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

/// A store object, its blocks, and a reader of it. No value exists without the feature `object-store`.
#[derive(Clone, Debug)]
pub(crate) struct Object(Infallible);

pub(super) type ObjectReader = Object;
#[cfg(feature = "parquet")]
pub(super) type ObjectBlocks = Object;

pub(super) const READ_BYTES: usize = 0;
#[cfg(feature = "parquet")]
pub(super) const BLOCKS_BYTES: usize = 0;

impl Stores {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn find(&mut self, url: &Url) -> Result<Found, InputError> {
        let reason = "this build cannot read object stores".to_owned();
        let hint = "cargo install windrow-cli --features object-store, or download the object first";
        Err(InputError::Url { name: url.to_string(), reason, hint })
    }
}

impl Object {
    pub(super) fn new(object: Self) -> Self {
        object
    }

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

    pub(super) fn seek(&mut self, _: u64) {
        match self.0 {}
    }
}

#[cfg(feature = "parquet")]
impl Object {
    pub(super) fn take_failure(&self) -> Option<(u64, io::Error)> {
        match self.0 {}
    }

    pub(super) fn rest_of_block(&self, _: u64, _: bool) -> io::Result<bytes::Bytes> {
        match self.0 {}
    }

    pub(super) fn bytes(&self, _: u64, _: usize) -> io::Result<bytes::Bytes> {
        match self.0 {}
    }

    pub(super) fn read_from(&self, _: u64) -> Self {
        match self.0 {}
    }
}

impl Read for Object {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}
