//! What a file of weights holds: named tensors, in the order of the file, and what else it says as text.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use warpweft_devices::FileError;

use crate::tensor::{Result, Tensor};

/// One tensor of a file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The type of its elements, as the format calls it: quantised ones keep their name.
    pub dtype: String,
    /// Lengths of its axes.
    pub shape: Vec<usize>,
    /// Bytes that it takes in the file.
    pub bytes: u64,
    /// Where in the file these begin; of an entry of an archive, where that begins.
    pub offset: u64,
    /// The file: of a model in shards, the shard.
    pub file: String,
    /// The bytes as they are in the file, of quantised tensors the packed ones, of others the elements.
    pub stored: Tensor,
    /// The tensor, which is read when it is used.
    pub tensor: Tensor,
}

/// The tensors of a file by name.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    file: String,
    entries: Vec<Entry>,
    by_name: FxHashMap<String, usize>,
    metadata: BTreeMap<String, String>,
}

/// How far reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'d> {
    /// Bytes that were read.
    pub done: u64,
    /// Bytes of all tensors.
    pub total: u64,
    /// The tensor that is being read.
    pub name: &'d str,
}

impl Dictionary {
    /// Of these entries; of several of one name the last counts.
    pub(crate) fn new(file: &str, entries: Vec<Entry>, metadata: BTreeMap<String, String>) -> Dictionary {
        let by_name = entries.iter().enumerate().map(|(at, entry)| (entry.name.clone(), at)).collect();
        Dictionary { file: file.to_string(), entries, by_name, metadata }
    }

    /// The file that it was read from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The tensors, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// How many tensors there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the file says beside tensors, as text.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The tensor of that name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|&at| &self.entries[at].tensor)
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// If there is none, with names that are near.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        match self.get(name) {
            Some(tensor) => Ok(tensor.clone()),
            None => {
                let near = self.near(name);
                let hint = if near.is_empty() { String::new() } else { format!("; near it: {}", near.join(", ")) };
                let message = format!("no tensor is called `{name}`; there are {}{hint}", self.len());
                Err(FileError { file: self.file.clone(), offset: 0, message }.into())
            }
        }
    }

    /// Names that end with the same parts, or contain each other.
    fn near(&self, name: &str) -> Vec<&str> {
        let last = name.rsplit('.').next().unwrap_or(name);
        let shared =
            |other: &str| other.split('.').rev().zip(name.split('.').rev()).take_while(|(a, b)| a == b).count();
        let mut near: Vec<(usize, &str)> = self
            .entries
            .iter()
            .map(|entry| (shared(&entry.name), entry.name.as_str()))
            .filter(|(count, other)| *count > 0 || other.contains(last))
            .collect();
        near.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        near.into_iter().take(3).map(|(_, name)| name).collect()
    }

    /// Bytes of all tensors in the file.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }

    /// Reads all tensors to their devices, in the order of the file; `progress` hears of each piece.
    ///
    /// ```no_run
    /// # use warpweft::formats;
    /// let weights = formats::load("model.gguf")?;
    /// weights.load(|progress| println!("{} of {} bytes, {}", progress.done, progress.total, progress.name))?;
    /// # Ok::<(), warpweft::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a tensor cannot be read.
    pub fn load(&self, mut progress: impl FnMut(Progress<'_>)) -> Result<()> {
        let (total, mut before) = (self.bytes(), 0);
        for entry in &self.entries {
            let (end, name) = (before + entry.bytes, entry.name.as_str());
            let mut done = before;
            entry.stored.load(&mut |bytes| {
                // A storage may be more than the tensor that it is read for.
                done = (done + bytes as u64).min(end);
                progress(Progress { done, total, name });
            })?;
            before = end;
            progress(Progress { done: before, total, name });
        }
        Ok(())
    }
}

impl IntoIterator for Dictionary {
    type Item = (String, Tensor);
    type IntoIter = std::iter::Map<std::vec::IntoIter<Entry>, fn(Entry) -> (String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter().map(|entry| (entry.name, entry.tensor))
    }
}
