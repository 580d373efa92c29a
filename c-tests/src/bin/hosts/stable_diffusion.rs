//! stable-diffusion.cpp, built by its own build files, as a shared library and as a static one.

use std::fs;
use std::path::{Path, PathBuf};

use lastuse_c_tests::Result;
use lastuse_c_tests::cmake::CmakeBuild;
use lastuse_c_tests::debian::{Has, Needed, check};
use lastuse_c_tests::models::{
    Kind, Kinds, autoencoder, clip, tiny_autoencoder, unet, upscaler, write_gguf, write_safetensors,
};
use lastuse_vendor::{Package, target_folder};

use crate::changed::{BudgetedJob, REORDER, ReorderedJob, captures};
use crate::job::{OUTPUT, Way};
use crate::jobs::{Options, run_jobs};
use crate::measured::measure_jobs;
use crate::programs::{Driver, Programs};

/// Its name on the command line.
const NAME: &str = "stable-diffusion";

const NEEDED: &[Needed] = &[Needed { package: "cmake", has: Has::Program("cmake") }];

/// The part of stable-diffusion.cpp to build: its library.
const SETTINGS: [&str; 3] = ["SD_BUILD_EXAMPLES=OFF", "SD_WEBP=OFF", "SD_WEBM=OFF"];

/// Makes it, and the ggml inside it, libraries that are loaded.
const SHARED: [&str; 3] = ["SD_BUILD_SHARED_LIBS=ON", "SD_BUILD_SHARED_GGML_LIB=ON", "BUILD_SHARED_LIBS=ON"];

/// The libraries of a static build, in the order of the linker.
const STATIC: [&str; 4] =
    ["libstable-diffusion.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a"];

/// Its build files set this for ggml and for themselves, so a program on both has to.
const NAMES: &str = "-DGGML_MAX_NAME=128";

/// Its files of weights.
const UPSCALER: &str = "esrgan.safetensors";
const TINY: &str = "taesd.safetensors";
const DIFFUSION: &str = "sd1.gguf";

/// A task: the model in words, its file, the activity, and the options of the program. `{tiny}` is the file of the tiny
/// autoencoder.
type Task = (&'static str, &'static str, &'static str, &'static str);

const TASKS: [Task; 11] = [
    ("ESRGAN", UPSCALER, "two sizes", "--upscaler on --sizes 48x32,32x48"),
    ("ESRGAN", UPSCALER, "tiles", "--upscaler on --sizes 48x48 --tiles on --tile 24"),
    ("ESRGAN", UPSCALER, "direct convolutions", "--upscaler on --sizes 24x32 --direct on"),
    ("SD1 UNet and VAE", DIFFUSION, "two sizes", "--sizes 64x64,128x64"),
    ("SD1 UNet and VAE", DIFFUSION, "two sizes, flash attention", "--sizes 64x64,128x64 --flash on"),
    ("SD1 UNet and VAE", DIFFUSION, "2 steps, tiles", "--sizes 128x128 --steps 2 --tiles on --tile 8"),
    ("SD1 UNet and VAE", DIFFUSION, "tiles, flash attention", "--sizes 128x128 --tiles on --tile 8 --flash on"),
    ("SD1 UNet and VAE", DIFFUSION, "from an image", "--sizes 64x64 --from-image on"),
    ("SD1 UNet and VAE", DIFFUSION, "from an image, flash attention", "--sizes 64x64 --from-image on --flash on"),
    (
        "SD1 UNet and TAESD",
        DIFFUSION,
        "from images, 2 at a time",
        "--tiny {tiny} --sizes 64x96 --batch 2 --from-image on",
    ),
    (
        "SD1 UNet and TAESD",
        DIFFUSION,
        "flash attention, direct convolutions",
        "--tiny {tiny} --sizes 128x64 --flash on --direct on",
    ),
];

/// The allocator of the UNet: after those of two texts, before that of the autoencoder.
const UNET: u32 = 3;

/// The target for reordering the UNet, as lastuse / ggml-alloc, with flash attention, for images of these sizes.
const REORDERED: f64 = 0.79;
const REORDERED_SIZES: [&str; 2] = ["256x256", "384x256"];

/// The bytes that UNet and decoder may take, each, when they are computed in tiles.
const BUDGET: u64 = 170 << 20;

/// The bytes that no name has where `GGML_MAX_NAME` is the default.
const OTHER_NAMES: usize = 64;

fn folder() -> PathBuf {
    target_folder().join("hosts").join(NAME)
}

/// Builds it twice: shared and static.
///
/// # Errors
/// Missing packages, or the error of the build.
pub fn build() -> Result<()> {
    check(NAME, NEEDED)?;
    let (sources, folder) = (Package::StableDiffusionCpp.sources()?, folder());
    let build =
        CmakeBuild { host: NAME, sources: &sources, folder: &folder, settings: &SETTINGS, target: NAME, inputs: &[] };
    build.build_shared_and_static(&SHARED, &[])
}

/// Runs models on both allocators.
///
/// # Errors
/// A failed check.
pub fn test(options: &Options) -> Result<()> {
    let folder = folder();
    let package = Package::StableDiffusionCpp;
    // Its header is not ours to warn about.
    let include = format!("-isystem{}", package.sources()?.join("include").display());
    let driver = Driver {
        host: NAME,
        title: "stable-diffusion.cpp",
        unit: "images",
        package,
        source: "hosts/stable_diffusion/paint.c",
        flags: &[&include, NAMES],
        libraries: folder.join("build/bin"),
        shared: &["stable-diffusion"],
        archives: STATIC.map(|archive| folder.join("static/build").join(archive)).to_vec(),
    };
    let programs = driver.build()?;
    write_models(&folder)?;
    let path = |file: &str| folder.join(file).to_string_lossy().into_owned();
    let mut jobs = Vec::new();
    for way in [Way::Preloaded, Way::Linked] {
        for (model, file, name, arguments) in TASKS {
            let words = [&*path(file), "--out", OUTPUT, "--threads", "1"].map(str::to_owned);
            let more = arguments.split_whitespace().map(|word| word.replace("{tiny}", &path(TINY)));
            jobs.push(programs.job(way, [model, name], words.into_iter().chain(more).collect()));
        }
    }
    let ordered = REORDERED_SIZES.map(|size| reordered(&programs, &folder, size));
    let budgeted = [Way::Preloaded, Way::Linked].map(|way| budgeted(&programs, &folder, way));
    let mut last = ordered.iter().map(|last| &last.job).chain(budgeted.iter().map(|last| &last.job));
    let is_last = last.any(|job| options.names(job));
    // Words that name the last ones alone name none of the others.
    if !is_last || jobs.iter().any(|job| options.names(job)) {
        if options.measured {
            return measure_jobs(NAME, &folder, &jobs.iter().collect::<Vec<_>>(), options);
        }
        run_jobs(NAME, &folder, &jobs, options)?;
    }
    for last in ordered.iter().filter(|last| options.names(&last.job) && !options.faults) {
        last.check(&folder)?;
        check_names(&folder)?;
    }
    let wanted = budgeted.iter().filter(|last| options.names(&last.job) && !options.faults);
    wanted.into_iter().try_for_each(|last| last.check(&folder))
}

/// Returns a job whose UNet and decoder are computed in tiles.
fn budgeted(programs: &Programs, folder: &Path, way: Way) -> BudgetedJob {
    let model = folder.join(DIFFUSION).to_string_lossy().into_owned();
    let words = [&*model, "--out", OUTPUT, "--threads", "1", "--sizes", "512x512"];
    let mut job = programs.job(way, ["SD1 UNet and VAE", "512x512, in tiles"], words.map(str::to_owned).to_vec());
    job.with.variables.push(("LASTUSE_BUDGET", BUDGET.to_string().into()));
    BudgetedJob {
        job,
        variable: "LASTUSE_BUDGET",
        budget: BUDGET,
        allocators: &[("UNet", UNET), ("VAE decoder", UNET + 1)],
    }
}

/// Returns a job whose UNet runs in the order of lastuse.
fn reordered(programs: &Programs, folder: &Path, size: &str) -> ReorderedJob {
    let path = |file: &str| folder.join(file).to_string_lossy().into_owned();
    let (model, tiny) = (path(DIFFUSION), path(TINY));
    let words = [&*model, "--out", OUTPUT, "--threads", "1", "--tiny", &*tiny, "--sizes", size, "--flash", "on"];
    let name = format!("{size}, flash attention, reordered");
    let mut job = programs.job(Way::Preloaded, ["SD1 UNet and TAESD", &name], words.map(str::to_owned).to_vec());
    job.with.variables.push((REORDER, "on".into()));
    ReorderedJob { job, allocator: ("UNet", UNET), most: REORDERED }
}

/// Checks that lastuse reads names that are longer than those of other ggmls.
fn check_names(folder: &Path) -> Result<()> {
    if longest_name(&captures(folder))? < OTHER_NAMES {
        return Err(format!("no name of a captured graph has {OTHER_NAMES} bytes"));
    }
    Ok(())
}

/// Returns the bytes of the longest name in captured graphs.
fn longest_name(folder: &Path) -> Result<usize> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut longest = 0;
    for entry in fs::read_dir(folder).map_err(failed)? {
        let text = fs::read_to_string(entry.map_err(failed)?.path()).map_err(failed)?;
        let names = text.split("\"name\":\"").skip(1).filter_map(|rest| rest.split('"').next());
        longest = longest.max(names.map(str::len).max().unwrap_or_default());
    }
    Ok(longest)
}

/// Writes all models. The text encoder and the encoder of images have sizes that are fixed; the rest is as small as it
/// can be.
fn write_models(folder: &Path) -> Result<()> {
    let halves = Kinds { matrix: Kind::F16, convolution: Kind::F16 };
    let blocks = Kinds { matrix: Kind::Q8, convolution: Kind::F16 };
    write_safetensors(&folder.join(UPSCALER), &upscaler(1, halves), 1)?;
    let numbers = Kinds { matrix: Kind::F32, convolution: Kind::F32 };
    write_safetensors(&folder.join(TINY), &tiny_autoencoder(numbers), 2)?;
    let mut weights = clip(blocks);
    weights.extend(unet(64, blocks));
    weights.extend(autoencoder(32, halves));
    write_gguf(&folder.join(DIFFUSION), &[], &weights, 3)
}
