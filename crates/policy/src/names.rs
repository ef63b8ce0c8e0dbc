//! Settings with a list of values, written and read by their names.

/// Implements `name`, `Default` and serde for an enum with a list `ALL` of its variants and their names.
macro_rules! named {
    ($Type:ident) => {
        impl $Type {
            /// The name in design files, in reports and on command lines.
            pub fn name(self) -> &'static str {
                match self {
                    $Type::Custom(custom) => custom.name(),
                    listed => {
                        let found = $Type::ALL.iter().find(|(_, known)| *known == listed);
                        found.expect("all other variants are listed").0
                    }
                }
            }
        }

        impl Default for $Type {
            /// The first value of the list.
            fn default() -> $Type {
                $Type::ALL[0].1
            }
        }

        impl serde::Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$Type, D::Error> {
                let name = <String as serde::Deserialize>::deserialize(deserializer)?;
                let found = $Type::ALL.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| *value).ok_or_else(|| {
                    let known: Vec<&str> = $Type::ALL.iter().map(|(known, _)| *known).collect();
                    serde::de::Error::custom(format!("'{name}' is not known: use one of {}", known.join(", ")))
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::{AdmitBy, Replacement};

    #[test]
    fn names_are_those_of_design_files_and_are_read_back() {
        assert_eq!((Replacement::default(), AdmitBy::default()), (Replacement::Wsclock, AdmitBy::All));
        for (name, policy) in Replacement::ALL {
            assert_eq!((policy.name(), serde_json::to_string(&policy).unwrap()), (name, format!("\"{name}\"")));
            assert_eq!(serde_json::from_str::<Replacement>(&format!("\"{name}\"")).unwrap(), policy);
        }
        for (name, rule) in AdmitBy::ALL {
            assert_eq!(serde_json::from_str::<AdmitBy>(&serde_json::to_string(&rule).unwrap()).unwrap().name(), name);
        }
        let error = serde_json::from_str::<Replacement>("\"mru\"").unwrap_err().to_string();
        assert!(error.contains("'mru' is not known: use one of wsclock, lru"), "{error}");
    }
}
