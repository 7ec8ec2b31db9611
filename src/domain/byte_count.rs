//! Counts bytes that several owners hold together, to enforce a common limit.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The sum of all shares.
#[derive(Clone, Debug, Default)]
pub struct SharedByteCount(Arc<AtomicUsize>);

impl SharedByteCount {
    /// The number of bytes in all shares.
    pub fn sum(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A new, empty share.
    pub fn share(&self) -> ByteShare {
        ByteShare {
            total: self.clone(),
            bytes: 0,
        }
    }
}

/// The bytes of one owner; subtracted from the sum when dropped.
#[derive(Debug, Default)]
pub struct ByteShare {
    total: SharedByteCount,
    bytes: usize,
}

impl ByteShare {
    /// The sum it belongs to.
    pub fn total(&self) -> &SharedByteCount {
        &self.total
    }

    /// The number of bytes in this share.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.total.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes, at most to zero.
    pub fn remove(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.total.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets the number of bytes.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.add(more),
            None => self.remove(self.bytes - bytes),
        }
    }
}

impl Drop for ByteShare {
    fn drop(&mut self) {
        self.remove(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_covers_all_live_shares() {
        let total = SharedByteCount::default();
        let (mut one, mut other) = (total.share(), total.share());
        one.add(5);
        other.set(7);
        other.set(3);
        one.remove(100);
        assert_eq!((one.bytes(), other.bytes(), total.sum()), (0, 3, 3));
        one.add(4);
        drop(other);
        assert_eq!(one.total().sum(), 4);
        drop(one);
        assert_eq!(total.sum(), 0);
    }
}
