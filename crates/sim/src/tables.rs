//! Reports as tables in a folder, each a file of Parquet.

use std::{
    fs::{self, File},
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::{Columns, Report, parquet_table};

/// A folder for the tables of reports: `reports.parquet`, `intervals.parquet`, `latency_histograms.parquet`,
/// `warnings.parquet` and `volumes.parquet`. A table without rows has no file, except `reports.parquet`, which is written last:
/// where it is, the others are complete.
///
/// Column names are the dotted names of the figures in the JSON, with their units; `report` is the place of a row's report in
/// the list, from 0. A figure that does not apply is null.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let design = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n";
/// # let design = peryton_sim::Design::parse(design, "my design", &[])?;
/// # let trace = peryton_trace::open("../../examples/traces/sqlite-ext4.parquet", &Default::default())?;
/// # let report = peryton_sim::run_one(&design, "sqlite", Box::new(trace), &Default::default(), &|_| {})?;
/// # let parent = tempfile::tempdir()?;
/// # let path = parent.path().join("results");
/// // Checked before the simulations begin, because they may take hours.
/// let folder = peryton_sim::TableFolder::create(&path)?;
/// folder.write(&mut [report])?;
/// assert!(path.join("reports.parquet").exists() && path.join("latency_histograms.parquet").exists());
/// // What is there already is never overwritten.
/// assert!(peryton_sim::TableFolder::create(&path).unwrap_err().to_string().contains("not empty"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TableFolder {
    path: PathBuf,
}

/// The reason why tables were not written.
#[derive(Debug, Error)]
pub enum TableError {
    /// The folder has something in it already.
    #[error("{}: is not empty (it has '{found}'): give another folder, or move what is in it", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// Something that is in it.
        found: String,
    },
    /// Something was put into the folder during the simulations; the tables were kept beside it under other names.
    #[error(
        "{}: is no longer empty (it has '{found}'): the tables are beside that, with names that end in '{suffix}': rename them",
        path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
        /// Something that is in it.
        found: String,
        /// The end of the names of the tables.
        suffix: String,
    },
    /// This build cannot write Parquet.
    #[error("FOLDER: this build has no Parquet: build it with the feature parquet, or write the reports as JSON")]
    NotBuilt,
    /// An error of the operating system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl TableFolder {
    /// Makes the folder, or takes an empty one.
    ///
    /// # Errors
    /// The folder cannot be made, or is not empty; or this build cannot write Parquet.
    pub fn create(path: impl Into<PathBuf>) -> Result<TableFolder, TableError> {
        let path = path.into();
        if !parquet_table::IS_BUILT {
            return Err(TableError::NotBuilt);
        }
        fs::create_dir_all(&path).map_err(|source| TableError::Io { path: path.clone(), source })?;
        match any_entry(&path)? {
            Some(found) => Err(TableError::NotEmpty { path, found }),
            None => Ok(TableFolder { path }),
        }
    }

    /// Writes the tables. Each gets its name when all of them are complete.
    ///
    /// # Errors
    /// A file cannot be written; or the folder is no longer empty.
    pub fn write(self, reports: &mut [Report]) -> Result<(), TableError> {
        let suffix = format!(".partial-{}", std::process::id());
        let found = any_entry(&self.path)?;
        let tables = [
            ("intervals", Columns::of_intervals(reports)),
            ("latency_histograms", Columns::of_histograms(reports)),
            ("warnings", Columns::of_warnings(reports)),
            ("volumes", Columns::of_volumes(reports)),
            ("reports", Columns::of_reports(reports).numbered("report")),
        ];
        let mut written = Vec::new();
        for (name, table) in &tables {
            if table.rows() == 0 && *name != "reports" {
                continue;
            }
            let file = self.path.join(format!("{name}.parquet"));
            let mut partial = file.clone().into_os_string();
            partial.push(&suffix);
            let partial = PathBuf::from(partial);
            let failed = |source| TableError::Io { path: partial.clone(), source };
            let out = File::create_new(&partial).map_err(failed)?;
            written.push((partial.clone(), file));
            let kept = parquet_table::write(table, BufWriter::new(out)).map_err(failed).and_then(|out| {
                let out = out.into_inner().map_err(|error| failed(error.into_error()))?;
                out.sync_all().map_err(failed)
            });
            if let Err(error) = kept {
                // The first error is the one to report. What is incomplete is of no use.
                written.iter().for_each(|(partial, _)| drop(fs::remove_file(partial)));
                return Err(error);
            }
        }
        if let Some(found) = found {
            return Err(TableError::Taken { path: self.path, found, suffix });
        }
        for (partial, file) in written {
            fs::rename(&partial, &file).map_err(|source| TableError::Io { path: file, source })?;
        }
        Ok(())
    }
}

/// The name of something in the folder: the first by name.
fn any_entry(path: &Path) -> Result<Option<String>, TableError> {
    let failed = |source| TableError::Io { path: path.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    Ok(names.into_iter().min())
}

#[cfg(all(test, feature = "parquet"))]
mod tests {
    use super::*;

    /// The fear: hours of simulation are lost because another program has used the folder meanwhile.
    #[test]
    fn a_folder_that_is_used_meanwhile_keeps_both() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TableFolder::create(parent.path().join("a/b")).unwrap();
        let other = folder.path.join("reports.parquet");
        fs::write(&other, "of another program").unwrap();
        let path = folder.path.clone();
        let error = folder.write(&mut []).unwrap_err();
        assert!(matches!(error, TableError::Taken { .. }), "{error}");
        assert_eq!(fs::read_to_string(&other).unwrap(), "of another program");
        let kept = path.join(format!("reports.parquet.partial-{}", std::process::id()));
        assert!(fs::read(&kept).unwrap().starts_with(b"PAR1"));
        assert!(error.to_string().contains("partial-") && error.to_string().lines().count() == 1, "{error}");
    }

    #[test]
    fn what_is_no_folder_or_is_not_empty_is_refused_before_the_work() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(TableFolder::create(&file).unwrap_err(), TableError::Io { .. }));
        let error = TableFolder::create(parent.path()).unwrap_err();
        assert!(matches!(error, TableError::NotEmpty { .. }) && error.to_string().contains("'file'"), "{error}");
    }
}
