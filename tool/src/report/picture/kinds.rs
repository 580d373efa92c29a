//! Groups of operations, with their colours.

/// How a group of operations is drawn.
#[derive(Debug)]
pub struct Kind {
    /// Its name in legends.
    pub name: &'static str,
    /// From the palette of Okabe and Ito, which is safe for any kind of colour vision, and two greys that stay apart from it.
    pub colour: &'static str,
    /// The colour of text that is readable on it.
    pub ink: &'static str,
}

/// By [`lastuse::graph::OpGroup`], which is also the order of the legend.
pub const KINDS: [Kind; 9] = [
    Kind { name: "matrix product", colour: "#0072b2", ink: "#ffffff" },
    Kind { name: "attention", colour: "#d55e00", ink: DARK },
    Kind { name: "normalization", colour: "#009e73", ink: DARK },
    Kind { name: "elementwise", colour: "#56b4e9", ink: DARK },
    Kind { name: "rows and positions", colour: "#e69f00", ink: DARK },
    Kind { name: "copy or join", colour: "#cc79a7", ink: DARK },
    Kind { name: "convolution or state", colour: "#f0e442", ink: DARK },
    Kind { name: "input", colour: "#b9c0c8", ink: DARK },
    Kind { name: "other", colour: "#4b5058", ink: "#ffffff" },
];

const DARK: &str = "#101418";

#[cfg(test)]
mod tests {
    use super::KINDS;

    /// By kind of colour vision, how much of red, green and blue light is seen as red, green and blue (Machado, Oliveira and Fernandes
    /// 2009, severity 1).
    const VISIONS: [(&str, [[f64; 3]; 3]); 4] = [
        ("full", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        (
            "without red",
            [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
        ),
        (
            "without green",
            [[0.367_322, 0.860_646, -0.227_968], [0.280_085, 0.672_501, 0.047_413], [-0.011_820, 0.042_940, 0.968_881]],
        ),
        (
            "without blue",
            [
                [1.255_528, -0.076_749, -0.178_779],
                [-0.078_411, 0.930_809, 0.147_602],
                [0.004_733, 0.691_367, 0.303_900],
            ],
        ),
    ];
    /// The ground of the map in light and dark, as in style.rs.
    const GROUNDS: [&str; 2] = ["#f4f6f8", "#181e25"];

    fn light(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let channel = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("two digits")) / 255.0;
            if channel <= 0.040_45 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn times(matrix: &[[f64; 3]; 3], vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(one, other)| one * other).sum())
    }

    /// The colour in OKLab, in which distances are as they are seen.
    fn seen(colour: &str, vision: &[[f64; 3]; 3]) -> [f64; 3] {
        const CONES: [[f64; 3]; 3] =
            [[0.412_221, 0.536_333, 0.051_446], [0.211_903, 0.680_700, 0.107_397], [0.088_302, 0.281_719, 0.629_979]];
        const LAB: [[f64; 3]; 3] = [
            [0.210_454, 0.793_618, -0.004_072],
            [1.977_998, -2.428_592, 0.450_594],
            [0.025_904, 0.782_772, -0.808_676],
        ];
        times(&LAB, times(&CONES, times(vision, light(colour))).map(|cone| cone.max(0.0).cbrt()))
    }

    #[test]
    fn colours_stay_apart_in_every_kind_of_colour_vision() {
        let kinds = KINDS.map(|kind| (kind.name, kind.colour));
        let colours: Vec<(&str, &str)> =
            kinds.into_iter().chain(GROUNDS.map(|ground| ("the ground", ground))).collect();
        for (vision, matrix) in &VISIONS {
            for (index, (one, colour)) in colours.iter().enumerate() {
                for (other, another) in &colours[index + 1..] {
                    let [one_seen, other_seen] = [colour, another].map(|colour| seen(colour, matrix));
                    let distance: f64 = one_seen.iter().zip(other_seen).map(|(one, other)| (one - other).powi(2)).sum();
                    assert!(distance.sqrt() > 0.07, "{one} and {other}, {vision}: {}", distance.sqrt());
                }
            }
        }
    }
}
