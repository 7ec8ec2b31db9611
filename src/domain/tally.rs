//! Bytes that many hold together, for a bound over all of them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The sum over all who share it.
#[derive(Clone, Debug, Default)]
pub struct SharedByteCount(Arc<AtomicUsize>);

impl SharedByteCount {
    /// How many bytes all hold.
    pub fn sum(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A part in it that holds nothing yet.
    pub fn part(&self) -> ByteShare {
        ByteShare {
            of: self.clone(),
            bytes: 0,
        }
    }
}

/// What one holds; it leaves the sum with him.
#[derive(Debug, Default)]
pub struct ByteShare {
    of: SharedByteCount,
    bytes: usize,
}

impl ByteShare {
    /// The sum that it is a part of.
    pub fn of(&self) -> &SharedByteCount {
        &self.of
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds this much more.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.of.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Holds this much less.
    pub fn remove(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.of.0.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Holds so much now.
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
    fn the_sum_is_what_all_hold_and_what_is_dropped_leaves_it() {
        let tally = SharedByteCount::default();
        let (mut one, mut other) = (tally.part(), tally.part());
        one.add(5);
        other.set(7);
        other.set(3);
        one.remove(100);
        assert_eq!((one.bytes(), other.bytes(), tally.sum()), (0, 3, 3));
        one.add(4);
        drop(other);
        assert_eq!(one.of().sum(), 4);
        drop(one);
        assert_eq!(tally.sum(), 0);
    }
}
