//! A table whose rows are named by index and reused, so that the hit path does not allocate.

/// Ends the list of free rows.
const NONE: u32 = u32::MAX;

/// Rows of `T`. The row removed last is the first to be reused.
#[derive(Clone)]
pub(crate) struct Slab<T> {
    /// Each row, and behind it, while the row is free, the index of the row that was freed before it.
    rows: Vec<(T, u32)>,
    free: u32,
    used: u32,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { rows: Vec::new(), free: NONE, used: 0 }
    }

    /// Always inlined: a row that is built elsewhere and copied here would wait until all of it has reached the cache.
    #[inline(always)]
    pub(crate) fn insert(&mut self, row: T) -> u32 {
        self.used += 1;
        let index = self.free;
        if let Some((place, next)) = self.rows.get_mut(index as usize) {
            *place = row;
            self.free = *next;
            return index;
        }
        let index = u32::try_from(self.rows.len()).ok().filter(|&index| index < NONE);
        let index = index.expect("fewer than 2^32 - 1 rows are ever in use at once");
        self.rows.push((row, NONE));
        index
    }

    /// What the row was that the next insertion reuses.
    #[inline(always)]
    pub(crate) fn reused(&self) -> Option<&T> {
        self.get(self.free as usize)
    }

    /// The row with this index, if there ever was one.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.rows.get(index).map(|(row, _)| row)
    }

    /// Takes a row for a value that the caller puts together in its place: a large one is not copied then. The row has the value of
    /// the row that was removed there, or the default.
    #[inline(always)]
    pub(crate) fn claim(&mut self) -> u32
    where
        T: Default,
    {
        let index = self.free;
        match self.rows.get(index as usize) {
            Some((_, next)) => {
                self.free = *next;
                self.used += 1;
                index
            }
            None => self.insert(T::default()),
        }
    }

    /// Frees the row. Its value stays readable until its index is reused.
    #[inline(always)]
    pub(crate) fn remove(&mut self, index: u32) {
        debug_assert!(self.free != index, "row {index} is removed twice");
        self.rows[index as usize].1 = self.free;
        self.free = index;
        self.used -= 1;
    }

    /// All rows with their indexes, those that were given up included.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.rows.iter().map(|(row, _)| row))
    }

    /// All rows, those that were given up included.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows.iter_mut().map(|(row, _)| row)
    }

    pub(crate) fn len(&self) -> usize {
        self.used as usize
    }
}

/// Free rows are no part of the state: the crash simulation compares states by this text.
impl<T: std::fmt::Debug> std::fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut is_free = vec![false; self.rows.len()];
        let mut free = self.free;
        while let Some((_, next)) = self.rows.get(free as usize) {
            is_free[free as usize] = true;
            free = *next;
        }
        f.debug_map().entries(self.all().filter(|(index, _)| !is_free[*index as usize])).finish()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.rows[index as usize].0
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.rows[index as usize].0
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;

    #[test]
    fn the_row_freed_last_is_reused_first() {
        let mut slab = Slab::new();
        assert_eq!([slab.insert('a'), slab.insert('b'), slab.insert('c')], [0, 1, 2]);
        slab.remove(1);
        slab.remove(0);
        assert_eq!((slab.len(), slab[0], slab[1]), (1, 'a', 'b'), "a freed row stays readable");
        assert_eq!(format!("{slab:?}"), "{2: 'c'}");
        assert_eq!([slab.insert('d'), slab.insert('e'), slab.insert('f')], [0, 1, 3]);
        assert_eq!(slab.all().collect::<Vec<_>>(), [(0, &'d'), (1, &'e'), (2, &'c'), (3, &'f')]);
    }
}
