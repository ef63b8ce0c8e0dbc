//! The estimates that a plan rests on.

use std::collections::{BTreeMap, BTreeSet};

use peryton_device::Origin;

use super::{Catalogue, Plan};

/// The estimated values of the devices in the best design and the runners-up.
pub(super) fn of(plan: &Plan, catalogue: &Catalogue) -> BTreeMap<String, Vec<String>> {
    let names: BTreeSet<&str> =
        plan.chosen().flat_map(|found| &found.devices).map(|device| device.profile.as_str()).collect();
    let mut all = BTreeMap::new();
    for kind in names.into_iter().filter_map(|name| catalogue.get(name)) {
        let mut values: Vec<String> = kind.profile.estimated().0.into_iter().map(str::to_owned).collect();
        let guessed = kind.profile.provenance.of("price_usd").is_some_and(|said| said.origin == Origin::Estimated);
        if guessed {
            values.push("price_usd".to_owned());
        }
        if !values.is_empty() {
            all.insert(kind.profile.name.clone(), values);
        }
    }
    all
}
