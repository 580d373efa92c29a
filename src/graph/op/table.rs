//! The table of operations.
//!
//! It is tested, not trusted: C programs of `c-tests` run the kernels of ggml's CPU backend, `in_place_kernels.c` in place,
//! and `written_layouts.c` and `read_layouts.c` in each layout, and fail where one that a row claims gives other bits.

use super::facts::{
    CopyKind, OpFacts, TileKind, UNKNOWN, Work, attention, convolution, copy, elementwise, norm, nothing, other,
    product, program, rows, view, writing,
};
use super::{InPlace, Slots, Strides};
use Strides::{Anything, Contiguous, PaddedRows, Rows};
use Work::{PerElement, PerElementOfFirst, ProductsAlong, Recurrence};

/// Declares [`Op`] and its rows.
macro_rules! operations {
    ($($op:ident $name:literal = $facts:expr;)*) => {
        /// An operation of ggml.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Op {
            /// One that is not in the table.
            #[default]
            Unknown,
            $(#[doc = $name] $op,)*
        }

        impl Op {
            /// All that are in the table, by name.
            pub const KNOWN: &[Self] = &[$(Self::$op),*];
        }

        static ROWS: &[(&str, OpFacts)] = &[("", UNKNOWN), $(($name, $facts)),*];
    };
}

impl Op {
    pub(super) fn row(self) -> &'static (&'static str, OpFacts) {
        &ROWS[self as usize]
    }
}

operations! {
    Acc "ACC" = copy().in_place(InPlace::Copy).writes(Contiguous).reads(&[Contiguous, Rows]);
    Add "ADD" = elementwise().listed().writes(PaddedRows).reads(&[Rows, Rows]).tiles(TileKind::Binary);
    Add1 "ADD1" = elementwise().listed().writes(Rows).reads(&[Rows]);
    AddId "ADD_ID" = elementwise().listed_since([0, 9, 5]).over(Slots::FIRST).writes(Rows)
        .reads(&[Rows, PaddedRows, PaddedRows]);
    AddRelPos "ADD_REL_POS" = other();
    Arange "ARANGE" = rows().writes(Contiguous);
    Argmax "ARGMAX" = rows().writes(Contiguous).reads(&[PaddedRows]);
    Argsort "ARGSORT" = rows().writes(Contiguous).work(PerElement(10));
    Clamp "CLAMP" = elementwise().listed_since([0, 26, 0]);
    Col2im1d "COL2IM_1D" = convolution();
    Concat "CONCAT" = copy().copies(CopyKind::Concat).writes(Anything).reads(&[Anything, Anything])
        .tiles(TileKind::Concat);
    Cont "CONT" = copy().in_place(InPlace::Copy).copies(CopyKind::Whole).writes(Anything).reads(&[Anything])
        .tiles(TileKind::Copy);
    Conv2d "CONV_2D" = convolution().writes(Anything).reads(&[Contiguous, Anything]).work(Work::Convolution);
    Conv2dDw "CONV_2D_DW" = convolution().writes(Contiguous).work(Work::Convolution);
    Conv3d "CONV_3D" = convolution().work(Work::Convolution);
    ConvTranspose1d "CONV_TRANSPOSE_1D" = convolution().writes(Contiguous).reads(&[Rows, PaddedRows])
        .work(Work::TransposedConvolution);
    ConvTranspose2d "CONV_TRANSPOSE_2D" = convolution().writes(Contiguous).reads(&[Contiguous, Rows])
        .work(Work::TransposedConvolution);
    Cos "COS" = elementwise().by_row(Slots::FIRST).writes(Contiguous).tiles(TileKind::Unary).work(PerElement(8));
    CountEqual "COUNT_EQUAL" = other().work(PerElementOfFirst(1));
    Cpy "CPY" = copy().in_place(InPlace::Copy).copies(CopyKind::Into).reads(&[Anything]).tiles(TileKind::Copy);
    CrossEntropyLoss "CROSS_ENTROPY_LOSS" = other().work(PerElementOfFirst(12));
    CrossEntropyLossBack "CROSS_ENTROPY_LOSS_BACK" = other().scans(Slots::SECOND).writes(Contiguous)
        .work(PerElement(12));
    Cumsum "CUMSUM" = elementwise().scans(Slots::FIRST).writes(Rows).reads(&[Rows]);
    Custom "CUSTOM" = program();
    Diag "DIAG" = other().writes(Rows).reads(&[Rows]);
    DiagMaskInf "DIAG_MASK_INF" = attention().listed().writes(Contiguous);
    DiagMaskZero "DIAG_MASK_ZERO" = attention().listed().writes(Contiguous);
    Div "DIV" = elementwise().listed().writes(Rows).reads(&[Rows, Rows]).tiles(TileKind::Binary);
    Dsv4HcComb "DSV4_HC_COMB" = other();
    Dsv4HcPost "DSV4_HC_POST" = other();
    Dsv4HcPre "DSV4_HC_PRE" = other();
    Dup "DUP" = copy().in_place(InPlace::Copy).copies(CopyKind::Whole).writes(Anything).reads(&[Anything])
        .tiles(TileKind::Copy);
    Fill "FILL" = elementwise().listed_since([0, 9, 5]).writes(Rows).reads(&[Anything]);
    FlashAttnBack "FLASH_ATTN_BACK" = attention().work(Work::Attention);
    FlashAttnExt "FLASH_ATTN_EXT" = attention().writes(Contiguous).reads(&[Rows, Rows, Rows, PaddedRows])
        .tiles(TileKind::FlashAttention { has_mask: None }).work(Work::Attention);
    GatedDeltaNet "GATED_DELTA_NET" = attention().work(Recurrence(6));
    GatedLinearAttn "GATED_LINEAR_ATTN" = attention().writes(Contiguous).work(Recurrence(5));
    GetRelPos "GET_REL_POS" = other();
    GetRows "GET_ROWS" = rows().writes(PaddedRows).reads(&[PaddedRows]).tiles(TileKind::GetRows);
    GetRowsBack "GET_ROWS_BACK" = rows().writes(Contiguous).reads(&[PaddedRows]);
    Glu "GLU" = elementwise().by_row(Slots::BOTH).writes(Contiguous).tiles(TileKind::Gated).work(PerElement(11));
    GroupNorm "GROUP_NORM" = norm().by_row(Slots::FIRST).writes(Rows).reads(&[Rows]).tiles(TileKind::Batches)
        .work(PerElement(7));
    Im2col "IM2COL" = convolution().writes(Contiguous).reads(&[Rows]).tiles(TileKind::Im2col(None));
    Im2col3d "IM2COL_3D" = convolution();
    Im2colBack "IM2COL_BACK" = convolution();
    L2Norm "L2_NORM" = norm().by_row(Slots::FIRST).writes(Rows).reads(&[Rows]).tiles(TileKind::Rows)
        .work(PerElement(3));
    LeakyRelu "LEAKY_RELU" = elementwise().by_row(Slots::FIRST).writes(Contiguous).tiles(TileKind::Unary);
    LightningIndexer "LIGHTNING_INDEXER" = attention();
    Log "LOG" = elementwise().listed().writes(Contiguous).tiles(TileKind::Unary).work(PerElement(8));
    MapBinary "MAP_BINARY" = program();
    MapCustom1 "MAP_CUSTOM1" = program();
    MapCustom2 "MAP_CUSTOM2" = program();
    MapCustom3 "MAP_CUSTOM3" = program();
    MapUnary "MAP_UNARY" = program();
    Mean "MEAN" = elementwise().writes(Rows).reads(&[Rows]).tiles(TileKind::Rows).work(PerElementOfFirst(1));
    Mul "MUL" = elementwise().listed().writes(Rows).reads(&[Rows, Rows]).tiles(TileKind::Binary);
    MulMat "MUL_MAT" = product().writes(Contiguous).reads(&[Rows]).tiles(TileKind::MatMul).work(ProductsAlong(0));
    MulMatId "MUL_MAT_ID" = product().writes(Contiguous).reads(&[Rows, Rows, PaddedRows]).tiles(TileKind::MatMulId)
        .work(ProductsAlong(0));
    None "NONE" = nothing();
    Norm "NORM" = norm().by_row(Slots::FIRST).writes(Rows).reads(&[Rows]).tiles(TileKind::Rows).work(PerElement(7));
    OptStepAdamw "OPT_STEP_ADAMW" = writing(Slots::from_bits(0b1101)).work(PerElement(14));
    OptStepSgd "OPT_STEP_SGD" = writing(Slots::FIRST).work(PerElement(3));
    OutProd "OUT_PROD" = product().writes(Contiguous).reads(&[Rows, Anything]).work(ProductsAlong(1));
    Pad "PAD" = copy().writes(Contiguous).reads(&[Rows]);
    PadReflect1d "PAD_REFLECT_1D" = copy().writes(Rows).reads(&[Rows]);
    Permute "PERMUTE" = view();
    Pool1d "POOL_1D" = convolution().writes(Contiguous).work(PerElementOfFirst(1));
    Pool2d "POOL_2D" = convolution().writes(Contiguous).reads(&[PaddedRows]).tiles(TileKind::Matrices)
        .work(PerElementOfFirst(1));
    Pool2dBack "POOL_2D_BACK" = convolution();
    Repeat "REPEAT" = copy().writes(Rows).reads(&[Rows]).tiles(TileKind::Repeat);
    RepeatBack "REPEAT_BACK" = copy().writes(Rows).reads(&[Rows]).work(PerElementOfFirst(1));
    Reshape "RESHAPE" = view();
    RmsNorm "RMS_NORM" = norm().listed().writes(Rows).reads(&[Rows]).tiles(TileKind::Rows).work(PerElement(4));
    RmsNormBack "RMS_NORM_BACK" = norm().listed_since([0, 9, 5]).over_before([0, 26, 0], Slots::SECOND).writes(Rows)
        .reads(&[Rows, Rows]).tiles(TileKind::RowsBack).work(PerElement(9));
    Roll "ROLL" = copy().writes(Rows).reads(&[Rows]);
    Rope "ROPE" = rows().listed().writes(Rows).reads(&[Rows]).tiles(TileKind::Rope).work(PerElement(3));
    RopeBack "ROPE_BACK" = rows().listed_since([0, 9, 5]).writes(Rows).reads(&[Rows]).work(PerElement(3));
    RwkvWkv6 "RWKV_WKV6" = convolution().writes(Contiguous).work(Recurrence(5));
    RwkvWkv7 "RWKV_WKV7" = convolution().work(Recurrence(7));
    Scale "SCALE" = elementwise().listed().writes(Contiguous).tiles(TileKind::Unary);
    Set "SET" = copy().in_place(InPlace::Copy).writes(Contiguous).reads(&[Contiguous, Rows]);
    SetRows "SET_ROWS" = rows().reads(&[PaddedRows]);
    SiluBack "SILU_BACK" = elementwise().listed_since([0, 9, 5]).writes(Contiguous).work(PerElement(14));
    Sin "SIN" = elementwise().by_row(Slots::FIRST).writes(Contiguous).tiles(TileKind::Unary).work(PerElement(8));
    SoftMax "SOFT_MAX" = attention().listed().writes(Rows).reads(&[Rows, Rows])
        .tiles(TileKind::SoftMax { same_slopes: false, has_mask: None }).work(PerElement(13));
    SoftMaxBack "SOFT_MAX_BACK" = attention().listed_since([0, 9, 5]).over_before([0, 26, 0], Slots::FIRST)
        .writes(Contiguous).tiles(TileKind::RowsBack).work(PerElement(4));
    SolveTri "SOLVE_TRI" = other().scans(Slots::SECOND).writes(Contiguous).work(ProductsAlong(0));
    Sqr "SQR" = elementwise().listed().writes(Contiguous).tiles(TileKind::Unary);
    Sqrt "SQRT" = elementwise().listed().writes(Contiguous).tiles(TileKind::Unary);
    SsmConv "SSM_CONV" = convolution().writes(Rows).work(ProductsAlong(0));
    SsmScan "SSM_SCAN" = convolution().work(Recurrence(5));
    Sub "SUB" = elementwise().listed().writes(Rows).reads(&[Rows, Rows]).tiles(TileKind::Binary);
    Sum "SUM" = elementwise().writes(Contiguous).reads(&[Rows]).work(PerElementOfFirst(1));
    SumRows "SUM_ROWS" = elementwise().writes(Rows).reads(&[Rows]).tiles(TileKind::Rows).work(PerElementOfFirst(1));
    TimestepEmbedding "TIMESTEP_EMBEDDING" = rows().writes(PaddedRows);
    TopK "TOP_K" = rows();
    TopKMask "TOP_K_MASK" = other();
    Transpose "TRANSPOSE" = view();
    Tri "TRI" = elementwise().by_row(Slots::FIRST).writes(Rows);
    Unary "UNARY" = elementwise().listed().writes(Contiguous).tiles(TileKind::Unary).work(PerElement(10));
    Upscale "UPSCALE" = convolution().writes(Anything).reads(&[Anything]).tiles(TileKind::Matrices);
    View "VIEW" = view();
    WinPart "WIN_PART" = convolution().writes(Contiguous);
    WinUnpart "WIN_UNPART" = convolution().writes(Contiguous);
}
