//! Tiles: values that live in registers of their own, which only loads, stores and products of tiles know (`ir::tiles` of the compiler).
//!
//! To LLVM such a value is of type `x86_amx`, of unknown size: each instruction is told rows and bytes of a row, and LLVM sets the registers up for these before the first. In a list it is
//! a vector, so what is a tile follows from the products: their operands, and the accumulators that they update.
//!
//! ```text
//! %load1 = call x86_amx @llvm.x86.tileloadd64.internal(i16 16, i16 64, ptr %index1, i64 64)
//! %acc0.r2 = phi x86_amx [ %acc0.zero, %entry ], [ %multiply_tiles1, %loop2 ]
//! ```
//!
//! Always: what else asks for a tile finds it in memory. Tested by tests/filetests/render/tiles.uop and, in the test crate, by the machine code of products.

use rustc_hash::FxHashMap;
use warpweft_compiler::ir::tiles::rows_apart;
use warpweft_compiler::ir::{Arg, TileKind, TileShape};
use warpweft_compiler::{Op, UOp};

use super::{Outcome, Writer, bug};

/// Rows of a tile and bytes of each.
#[derive(Clone, Copy)]
pub(super) struct TileSize {
    rows: usize,
    row_bytes: usize,
}

impl TileSize {
    /// As the first arguments of an instruction.
    fn text(self) -> String {
        format!("i16 {}, i16 {}", self.rows, self.row_bytes)
    }
}

/// The values of a list that are tiles.
pub(super) type Tiles = FxHashMap<UOp, TileSize>;

fn shape_of(product: &UOp) -> (TileKind, TileShape) {
    let types = [0, 1, 2].map(|operand: usize| product.src()[operand].dtype());
    let rows = match product.arg() {
        Arg::Number(rows) => usize::try_from(*rows).unwrap_or(0),
        _ => 0,
    };
    TileShape::of(rows, types[0], types[1], types[2]).unwrap_or_else(|| bug(product, "multiplies what fits no tile"))
}

/// Finds the tiles of a list.
pub(super) fn find(ops: &[UOp]) -> Tiles {
    let mut tiles = Tiles::default();
    for product in ops.iter().filter(|node| node.op() == Op::MultiplyTiles) {
        let (_, shape) = shape_of(product);
        let sizes = shape.heights().into_iter().zip(shape.row_bytes());
        let size = |(rows, row_bytes): (usize, usize)| TileSize { rows, row_bytes };
        for (operand, size) in product.src().iter().chain([product]).zip(sizes.clone().chain(sizes.skip(2)).map(size)) {
            // Zeros become a tile where one is asked for: they may be a vector besides.
            if operand.op() != Op::Const {
                tiles.insert(operand.clone(), size);
            }
        }
    }
    if tiles.is_empty() {
        return tiles;
    }
    for node in ops.iter().filter(|node| node.op() == Op::Final) {
        if let Some(size) = tiles.get(&node.src()[0]).copied() {
            tiles.insert(node.clone(), size);
        }
    }
    tiles
}

impl Writer {
    /// A tile as an operand; zeros are made here.
    fn tile(&mut self, node: &UOp, size: TileSize, name: &str) -> String {
        if node.op() != Op::Const {
            return self.operand(node).to_string();
        }
        if node.as_scalar().is_none_or(|value| value.to_f64() != 0.0) {
            bug(node, "is a constant tile of something else than zeros");
        }
        self.step(name, "zero", &format!("call x86_amx @llvm.x86.tilezero.internal({})", size.text()))
    }

    pub(super) fn multiply_tiles(&mut self, node: &UOp, name: &str) -> Outcome {
        let (kind, shape) = shape_of(node);
        let instruction = match kind {
            TileKind::Bf16 => "tdpbf16ps",
            TileKind::F16 => "tdpfp16ps",
            TileKind::SignedBytes => "tdpbssd",
            TileKind::SignedByUnsigned => "tdpbsud",
            TileKind::UnsignedBySigned => "tdpbusd",
            TileKind::UnsignedBytes => "tdpbuud",
        };
        let [left, right, sums] = shape.row_bytes();
        let size = TileSize { rows: shape.rows, row_bytes: sums };
        let sums = self.tile(&node.src()[2], size, name);
        let [a, b] = [0, 1].map(|factor: usize| self.operand(&node.src()[factor]).to_string());
        Outcome::Instruction(format!(
            "call x86_amx @llvm.x86.{instruction}.internal(i16 {}, i16 {right}, i16 {left}, x86_amx {sums}, x86_amx {a}, x86_amx {b})",
            shape.rows
        ))
    }

    /// What an accumulator of tiles begins with.
    pub(super) fn first_tile(&mut self, accumulator: &UOp, size: TileSize, name: &str) {
        let zeros = self.tile(&accumulator.src()[0], size, name);
        self.set(accumulator, zeros);
    }

    /// Loads a tile that lies in one piece, or row by row.
    pub(super) fn load_tile(&mut self, node: &UOp, size: TileSize) {
        let name = self.names.next(node.op());
        let index = &node.src()[0];
        if index.src().len() != 2 {
            bug(node, "loads a tile under a gate");
        }
        let address = self.operand(index).to_string();
        let pitch_bytes = match rows_apart(index) {
            Some((_, pitch)) => pitch * index.dtype().element().bytes() as i64,
            None => size.row_bytes as i64,
        };
        self.line(&format!(
            "{name} = call x86_amx @llvm.x86.tileloadd64.internal({}, ptr {address}, i64 {pitch_bytes})",
            size.text(),
        ));
        self.set(node, name);
    }

    /// Stores a tile in one piece.
    pub(super) fn store_tile(&mut self, node: &UOp, size: TileSize) {
        let (index, value) = (&node.src()[0], &node.src()[1]);
        if index.src().len() != 2 || rows_apart(index).is_some() {
            bug(node, "stores a tile under a gate, or row by row");
        }
        let (address, value) = (self.operand(index), self.operand(value));
        self.line(&format!(
            "call void @llvm.x86.tilestored64.internal({}, ptr {address}, i64 {}, x86_amx {value})",
            size.text(),
            size.row_bytes
        ));
    }
}
