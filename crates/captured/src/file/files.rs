//! The captured files of this process, as the hooks of one library know them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file, shared by the threads of the program.
pub type Shared<F> = Arc<Mutex<F>>;

/// The file, for one thread.
pub fn lock<F>(file: &Mutex<F>) -> MutexGuard<'_, F> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files in the order in which they were added. `K` is what is known of each without locking it.
///
/// No file may be locked while the list is: a call of that file may be under way, which may need the list.
pub struct Files<K, F> {
    all: Mutex<Vec<(K, Shared<F>)>>,
    /// How many there are: most programs have none.
    count: AtomicUsize,
}

impl<K, F> Files<K, F> {
    /// No files.
    pub const fn none() -> Self {
        Self { all: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// True if there is some file. Quick, for calls that are frequent.
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Looks at the list, or changes it. No other thread has it meanwhile.
    pub fn with<T>(&self, look: impl FnOnce(&mut Vec<(K, Shared<F>)>) -> T) -> T {
        let mut all = lock(&self.all);
        let found = look(&mut all);
        self.count.store(all.len(), Ordering::Relaxed);
        found
    }

    /// Looks at the list. `None` if another thread has it: it may be one that a `fork` has left behind.
    pub fn try_with<T>(&self, look: impl FnOnce(&[(K, Shared<F>)]) -> T) -> Option<T> {
        self.all.try_lock().ok().map(|all| look(&all))
    }

    /// Adds a file.
    pub fn add(&self, key: K, file: F) {
        self.with(|all| all.push((key, Arc::new(Mutex::new(file)))));
    }

    /// The first file that `is_it` is true of.
    pub fn find(&self, mut is_it: impl FnMut(&K) -> bool) -> Option<Shared<F>> {
        if !self.any() {
            return None;
        }
        self.with(|all| all.iter().find(|(key, _)| is_it(key)).map(|(_, file)| Arc::clone(file)))
    }

    /// Takes out the first file that `is_it` is true of.
    pub fn take(&self, mut is_it: impl FnMut(&K) -> bool) -> Option<Shared<F>> {
        if !self.any() {
            return None;
        }
        self.with(|all| {
            let at = all.iter().position(|(key, _)| is_it(key))?;
            Some(all.remove(at).1)
        })
    }

    /// Takes a file out. False if another thread has done so.
    pub fn remove(&self, file: &Shared<F>) -> bool {
        self.with(|all| {
            let before = all.len();
            all.retain(|(_, other)| !Arc::ptr_eq(other, file));
            all.len() < before
        })
    }
}

impl<K: Clone, F> Files<K, F> {
    /// All files, to be locked one by one.
    pub fn all(&self) -> Vec<(K, Shared<F>)> {
        self.with(|all| all.clone())
    }
}
