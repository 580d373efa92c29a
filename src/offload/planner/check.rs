//! Validates a request.

use std::fmt;

use crate::offload::device::Device;
use crate::placement::Bytes;

use super::request::Request;

/// Why a request is refused. Devices and items are given by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// There is no device, not even a host.
    NoDevice,
    /// An alignment that is not a power of two, or a granularity of 0.
    Sizes {
        /// The device.
        device: String,
    },
    /// A budget below the reserve.
    BelowReserve {
        /// The device.
        device: String,
        /// Its budget.
        budget: Bytes,
        /// Its reserve.
        reserve: Bytes,
    },
    /// A benefit that is negative or not finite.
    Benefit {
        /// The item.
        item: String,
    },
    /// An item is pinned to a device that is not in the list.
    Pinned {
        /// The item.
        item: String,
    },
    /// An item is larger than the largest buffer of each device that it may be on.
    TooLarge {
        /// The item.
        item: String,
        /// The device, or several.
        device: String,
        /// Bytes of the item.
        bytes: Bytes,
        /// Bytes of the largest buffer.
        max: Bytes,
    },
    /// Rows with a granule of 0, with another number of benefits than groups, or with benefits that rise.
    Rows {
        /// The item.
        item: String,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDevice => write!(f, "there is no device: name the host at least"),
            Self::Sizes { device } => {
                write!(f, "{device}: the alignment must be a power of two, and the granularity at least 1")
            }
            Self::BelowReserve { device, budget, reserve } => write!(
                f,
                "{device}: the budget of {budget} bytes is below the reserve of {reserve}: raise the budget, or lower \
                 the reserve"
            ),
            Self::Benefit { item } => write!(f, "{item}: the benefit must be finite and not negative"),
            Self::Pinned { item } => write!(f, "{item} is pinned to a device that is not in the list"),
            Self::TooLarge { item, device, bytes, max } => write!(
                f,
                "{item} has {bytes} bytes, and a buffer of {device}, where it must be, at most {max}: allow it on another \
                 device"
            ),
            Self::Rows { item } => {
                write!(
                    f,
                    "{item}: rows need a granule above 0 and one benefit for each group, from the most to the least"
                )
            }
        }
    }
}

/// # Errors
/// [`Invalid`].
pub fn check(request: &Request<'_>) -> Result<(), Invalid> {
    if request.devices.is_empty() {
        return Err(Invalid::NoDevice);
    }
    for device in request.devices {
        let name = || device.name.clone();
        if !device.alignment.is_power_of_two() || device.granularity == 0 {
            return Err(Invalid::Sizes { device: name() });
        }
        if let Some(budget) = device.budget.filter(|&budget| budget < device.reserve) {
            return Err(Invalid::BelowReserve { device: name(), budget, reserve: device.reserve });
        }
    }
    (0..request.items.len()).try_for_each(|item| check_item(request, item))
}

fn check_item(request: &Request<'_>, item: usize) -> Result<(), Invalid> {
    let item = &request.items[item];
    let name = || item.name.clone();
    if !item.benefit.is_finite() || item.benefit < 0.0 {
        return Err(Invalid::Benefit { item: name() });
    }
    if item.pinned.is_some_and(|device| device >= request.devices.len()) {
        return Err(Invalid::Pinned { item: name() });
    }
    let allowed = item.pinned.map_or(request.devices, |device| &request.devices[device..=device]);
    let too_small = |device: &Device| device.max_buffer.filter(|_| !device.may_hold(item.bytes));
    let limits: Option<Vec<Bytes>> = allowed.iter().map(too_small).collect();
    if let Some(max) = limits.and_then(|limits| limits.into_iter().max()) {
        let names: Vec<&str> = allowed.iter().map(|device| device.name.as_str()).collect();
        return Err(Invalid::TooLarge { item: name(), device: names.join(" or "), bytes: item.bytes, max });
    }
    let is_good = item.rows.as_ref().is_none_or(|rows| {
        let is_number = rows.benefits.iter().all(|benefit| benefit.is_finite() && *benefit >= 0.0);
        let falls = rows.benefits.windows(2).all(|pair| pair[0] >= pair[1]);
        rows.granule > 0 && is_number && falls && rows.benefits.len() as u64 == rows.count.div_ceil(rows.granule)
    });
    if is_good { Ok(()) } else { Err(Invalid::Rows { item: name() }) }
}
