//! `--slow`: devices that do everything several times over.

use std::ops::RangeInclusive;
use std::str::FromStr;

use millstream::prelude::*;

use super::pipeline::Filterer;
use crate::error::Error;

/// Limited, since all repetitions of a packet are submitted at once.
const FACTORS: RangeInclusive<u32> = 1..=1000;

/// A device made slower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slow {
    device: String,
    factor: u32,
}

impl FromStr for Slow {
    type Err = String;

    fn from_str(text: &str) -> Result<Slow, String> {
        let (device, factor) =
            text.rsplit_once('=').ok_or("expected DEVICE=FACTOR, such as host:1=4")?;
        let number = factor.parse().ok().filter(|factor| FACTORS.contains(factor));
        let factor = number.ok_or_else(|| {
            let (least, most) = (FACTORS.start(), FACTORS.end());
            format!("{factor:?} is not a whole number from {least} to {most}")
        })?;
        Ok(Slow { device: device.to_string(), factor })
    }
}

/// The devices, each slowed down as requested, with the given packet sizes.
pub(super) fn filterers(
    context: &Context,
    slow: &[Slow],
    buffers: Buffers,
) -> Result<Vec<Filterer>, Error> {
    let filterer = |device: &Device| Filterer { device: device.clone(), repeats: 1, buffers };
    let mut filterers: Vec<Filterer> = context.devices().iter().map(filterer).collect();
    for (place, Slow { device, factor }) in slow.iter().enumerate() {
        if slow[..place].iter().any(|earlier| earlier.device == *device) {
            return Err(Error::Usage(format!("--slow names {device} twice")));
        }
        let named = filterers.iter_mut().find(|filterer| filterer.device.name() == *device);
        let Some(filterer) = named else {
            let names: Vec<String> = context.devices().iter().map(Device::name).collect();
            let names = names.join(", ");
            return Err(Error::Usage(format!("--slow: no {device:?} among the devices {names}")));
        };
        filterer.repeats = *factor;
    }
    Ok(filterers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_factors_are_read() {
        let slow = |device: &str, factor| Ok(Slow { device: device.into(), factor });
        assert_eq!("host:1=4".parse(), slow("host:1", 4));
        assert_eq!("cuda:0.3=1000".parse(), slow("cuda:0.3", 1000));
        for (text, reason) in [
            ("host:1", "DEVICE=FACTOR"),
            ("host:1=0", "from 1 to 1000"),
            ("host:1=1001", "from 1 to 1000"),
            ("host:1=2.5", "\"2.5\" is not a whole number"),
            ("host:1=", "is not a whole number"),
        ] {
            let error = text.parse::<Slow>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn only_the_devices_named_are_slower() {
        let context = Context::builder().devices(Devices::host(3)).build().unwrap();
        let repeats = |slow: &[&str]| {
            let slow: Vec<Slow> = slow.iter().map(|text| text.parse().unwrap()).collect();
            let filterers = filterers(&context, &slow, Buffers::bytes(64))
                .map_err(|error| error.to_string())?;
            Ok::<_, String>(filterers.iter().map(|filterer| filterer.repeats).collect::<Vec<_>>())
        };
        assert_eq!(repeats(&[]).unwrap(), [1, 1, 1]);
        assert_eq!(repeats(&["host:2=4", "host:0=2"]).unwrap(), [2, 1, 4]);
        assert!(repeats(&["host:3=4"]).unwrap_err().contains("host:0, host:1, host:2"));
        assert!(repeats(&["host:1=4", "host:1=2"]).unwrap_err().contains("twice"));
    }
}
