//! Settings that are one of a list, written and read by their names.

/// Implements `name` and serde for an enum with a list `ALL` of its variants and their names.
macro_rules! named {
    ($Type:ident) => {
        impl $Type {
            /// Its name in design files, in reports and on command lines.
            pub fn name(self) -> &'static str {
                let found = $Type::ALL.iter().find(|(_, known)| *known == self);
                found.expect("all variants are listed").0
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
