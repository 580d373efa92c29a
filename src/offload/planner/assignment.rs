//! Where each item is.

use crate::offload::device::DeviceIndex;

use super::request::Request;

/// Where an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The device that has all of it.
    pub device: DeviceIndex,
    /// A device that also has the rows that gain most, and how many.
    pub rows: Option<(DeviceIndex, u64)>,
}

/// By item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assignment(pub Vec<Place>);

impl Assignment {
    /// All that is not pinned is on the host.
    pub fn on_host(request: &Request<'_>) -> Self {
        let place = |pinned: Option<DeviceIndex>| Place { device: pinned.unwrap_or(request.host()), rows: None };
        Self(request.items.iter().map(|item| place(item.pinned)).collect())
    }

    /// Returns the benefit.
    pub fn benefit(&self, request: &Request<'_>) -> f64 {
        let host = request.host();
        let gained = request.items.iter().zip(&self.0).map(|(item, place)| {
            if place.device != host {
                return item.benefit;
            }
            let Some((rows, (_, count))) = item.rows.as_ref().zip(place.rows) else { return 0.0 };
            (0..).zip(&rows.benefits).take_while(|(group, _)| rows.in_groups(*group) < count).map(|(_, it)| it).sum()
        });
        gained.sum()
    }
}
