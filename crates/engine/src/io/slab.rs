//! A table whose rows are named by index and reused, so that the hit path does not allocate.

/// Rows of `T`. The row removed last is the first to be reused.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    rows: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { rows: Vec::new(), free: Vec::new() }
    }

    /// Always inlined: a row that is built elsewhere and copied here would wait until all of it has reached the cache.
    #[inline(always)]
    pub(crate) fn insert(&mut self, row: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.rows[index as usize] = row;
                index
            }
            None => {
                let index = u32::try_from(self.rows.len()).expect("fewer than 2^32 rows are ever in use at once");
                self.rows.push(row);
                index
            }
        }
    }

    /// Frees the row. Its value stays readable until its index is reused.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        debug_assert!(!self.free.contains(&index) || self.free.len() > 64, "row {index} is removed twice");
        self.free.push(index);
    }

    /// All rows with their indexes, those that were given up included.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.rows)
    }

    /// All rows, those that were given up included.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.rows[index as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.rows[index as usize]
    }
}
