//! The text of a design, from which it is parsed with other overrides.

use std::path::Path;

use super::{
    Design,
    in_service::{self, DevicePlace, InService},
};
use crate::{DesignError, document::Document};

/// A design file that was read, or a text with a name.
///
/// ```
/// use peryton_sim::DesignText;
///
/// let text = DesignText::new("[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n", "one");
/// for size in ["4GiB", "8GiB"] {
///     println!("{}", text.design(&[format!("devices.only.size={size}")])?.volume);
/// }
/// # Ok::<(), peryton_sim::DesignError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DesignText {
    text: String,
    file: String,
    name: String,
}

impl DesignText {
    /// Reads a design file; what it contains is looked at by [`DesignText::design`].
    ///
    /// # Errors
    /// The file cannot be read, is not text, or is too large.
    pub fn read(path: impl AsRef<Path>) -> Result<DesignText, DesignError> {
        let path = path.as_ref();
        let name = path.file_stem().map_or_else(|| "design".into(), |stem| stem.to_string_lossy());
        Ok(DesignText { text: Document::text(path)?, file: path.display().to_string(), name: name.into_owned() })
    }

    /// A text that names itself in errors and reports.
    pub fn new(text: impl Into<String>, name: impl Into<String>) -> DesignText {
        let name = name.into();
        DesignText { text: text.into(), file: name.clone(), name }
    }

    /// The name that the design has unless it names itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The design, with these overrides.
    ///
    /// # Errors
    /// Those of [`Design::load`].
    pub fn design(&self, overrides: &[String]) -> Result<Design, DesignError> {
        Design::from_document(self.document()?, &self.name, overrides, None)
    }

    /// The devices in the order of the file, and where they are; other keys are not looked at.
    ///
    /// # Errors
    /// The text is not TOML, an override cannot be applied, or a path is none.
    pub fn device_places(&self, overrides: &[String]) -> Result<Vec<DevicePlace>, DesignError> {
        let mut document = self.document()?;
        for (index, text) in overrides.iter().enumerate() {
            document.set(index, text)?;
        }
        in_service::places(&document)
    }

    /// The design of a drive in service, with these overrides.
    ///
    /// # Errors
    /// Those of [`Design::load`], or neither the design nor the device says how large it is.
    pub fn in_service(&self, overrides: &[String], known: &InService) -> Result<Design, DesignError> {
        Design::from_document(self.document()?, &self.name, overrides, Some(known))
    }

    fn document(&self) -> Result<Document, DesignError> {
        Document::parse(&self.text, self.file.clone())
    }
}
