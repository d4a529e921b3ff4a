//! Messages of the ONNX format, as far as they are read: field numbers and types are those of `onnx-ml.proto`.
//!
//! Derived by `prost`, which skips fields that are not named here. Not here: what the numbers mean (`element`, `graph`).

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Model {
    #[prost(int64, optional, tag = "1")]
    pub(super) ir_version: Option<i64>,
    #[prost(message, repeated, tag = "8")]
    pub(super) opset_import: Vec<OperatorSet>,
    #[prost(message, optional, tag = "7")]
    pub(super) graph: Option<Graph>,
    #[prost(message, repeated, tag = "25")]
    pub(super) functions: Vec<Function>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperatorSet {
    #[prost(string, optional, tag = "1")]
    pub(super) domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub(super) version: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Function {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(super) output: Vec<String>,
    #[prost(message, repeated, tag = "11")]
    pub(super) attribute_proto: Vec<Attribute>,
    #[prost(message, repeated, tag = "7")]
    pub(super) node: Vec<Node>,
    #[prost(message, repeated, tag = "9")]
    pub(super) opset_import: Vec<OperatorSet>,
    #[prost(string, optional, tag = "10")]
    pub(super) domain: Option<String>,
    #[prost(string, optional, tag = "13")]
    pub(super) overload: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Graph {
    #[prost(message, repeated, tag = "1")]
    pub(super) node: Vec<Node>,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) initializer: Vec<Tensor>,
    #[prost(message, repeated, tag = "15")]
    pub(super) sparse_initializer: Vec<SparseTensor>,
    #[prost(message, repeated, tag = "11")]
    pub(super) input: Vec<ValueInfo>,
    #[prost(message, repeated, tag = "12")]
    pub(super) output: Vec<ValueInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Node {
    #[prost(string, repeated, tag = "1")]
    pub(super) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(super) output: Vec<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) op_type: Option<String>,
    #[prost(string, optional, tag = "7")]
    pub(super) domain: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub(super) overload: Option<String>,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Attribute {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "21")]
    pub(super) ref_attr_name: Option<String>,
    #[prost(int32, optional, tag = "20")]
    pub(super) kind: Option<i32>,
    #[prost(float, optional, tag = "2")]
    pub(super) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(super) i: Option<i64>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) s: Option<Vec<u8>>,
    #[prost(message, optional, tag = "5")]
    pub(super) t: Option<Tensor>,
    #[prost(message, optional, tag = "6")]
    pub(super) g: Option<Graph>,
    #[prost(message, optional, tag = "22")]
    pub(super) sparse_tensor: Option<SparseTensor>,
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub(super) floats: Vec<f32>,
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub(super) ints: Vec<i64>,
    #[prost(bytes = "vec", repeated, tag = "9")]
    pub(super) strings: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(string, optional, tag = "1")]
    pub(super) key: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Tensor {
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(super) dims: Vec<i64>,
    #[prost(int32, optional, tag = "2")]
    pub(super) data_type: Option<i32>,
    #[prost(float, repeated, tag = "4")]
    pub(super) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(super) int32_data: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(super) string_data: Vec<Vec<u8>>,
    #[prost(int64, repeated, tag = "7")]
    pub(super) int64_data: Vec<i64>,
    #[prost(string, optional, tag = "8")]
    pub(super) name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(super) raw_data: Option<Vec<u8>>,
    #[prost(double, repeated, tag = "10")]
    pub(super) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(super) uint64_data: Vec<u64>,
    #[prost(message, repeated, tag = "13")]
    pub(super) external_data: Vec<Entry>,
    #[prost(int32, optional, tag = "14")]
    pub(super) data_location: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SparseTensor {
    #[prost(message, optional, tag = "1")]
    pub(super) values: Option<Tensor>,
    #[prost(message, optional, tag = "2")]
    pub(super) indices: Option<Tensor>,
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub(super) dims: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueInfo {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(super) kind: Option<Type>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Type {
    #[prost(oneof = "TypeValue", tags = "1, 4, 5, 8, 9")]
    pub(super) value: Option<TypeValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum TypeValue {
    #[prost(message, tag = "1")]
    Tensor(TensorType),
    #[prost(message, tag = "4")]
    Sequence(ElementOf),
    #[prost(message, tag = "5")]
    Map(MapType),
    #[prost(message, tag = "8")]
    SparseTensor(TensorType),
    #[prost(message, tag = "9")]
    Optional(ElementOf),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ElementOf {
    #[prost(message, optional, boxed, tag = "1")]
    pub(super) elem_type: Option<Box<Type>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MapType {
    #[prost(int32, optional, tag = "1")]
    pub(super) key_type: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorType {
    #[prost(int32, optional, tag = "1")]
    pub(super) elem_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TensorShape {
    #[prost(message, repeated, tag = "1")]
    pub(super) dim: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dimension {
    #[prost(oneof = "DimensionValue", tags = "1, 2")]
    pub(super) value: Option<DimensionValue>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum DimensionValue {
    #[prost(int64, tag = "1")]
    Number(i64),
    #[prost(string, tag = "2")]
    Name(String),
}

/// What a file of a sequence or an optional holds (`onnx-data.proto`).
#[derive(Clone, PartialEq, Message)]
pub(super) struct Sequence {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) elem_type: Option<i32>,
    #[prost(message, repeated, tag = "3")]
    pub(super) tensor_values: Vec<Tensor>,
    #[prost(message, repeated, tag = "5")]
    pub(super) sequence_values: Vec<Sequence>,
    #[prost(message, repeated, tag = "7")]
    pub(super) optional_values: Vec<Optional>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Optional {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(super) elem_type: Option<i32>,
    #[prost(message, optional, boxed, tag = "3")]
    pub(super) tensor_value: Option<Box<Tensor>>,
    #[prost(message, optional, boxed, tag = "5")]
    pub(super) sequence_value: Option<Box<Sequence>>,
}
