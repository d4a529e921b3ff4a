//! `#[derive(Module)]`: a struct of tensors and layers as a module of `warpweft::nn`, whose parameters have the names of its fields.
//!
//! ```text
//! #[derive(Module)]                        names of what learns
//! struct Network {
//!     first: Conv2d,                       first.weight, first.bias
//!     blocks: Vec<Block>,                  blocks.0. .., blocks.1. ..
//!     #[module(name = "fc")]
//!     last: Option<Linear>,                fc.weight, fc.bias, where it is there
//!     scale: Tensor,                       scale
//!     #[module(buffer)]
//!     mean: Tensor,                        mean: state that does not learn
//!     heads: i64,                          numbers, truth values and texts are no state
//!     #[module(skip)]
//!     options: ConvOptions,                nor is what is skipped
//! }
//! ```
//!
//! What a field gives is said by its type (`warpweft::nn::Part`), so the macro looks at names and attributes alone. Whatever it cannot do is an error at the position in
//! the source. Tests: below, and in `runtime/tests/module.rs`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Index, LitStr, Member, Result, Type, parse_macro_input};

/// Types that hold no tensors, by their names: fields of these need no attribute.
const PLAIN: [&str; 17] = [
    "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128",
    "usize", "String",
];

/// A struct of tensors and layers as a module: parameters by the names of fields, those of layers below them.
///
/// `#[module(name = "..")]` gives a field another name, `#[module(buffer)]` says that its tensors are state that does not learn, and `#[module(skip)]` that it is no
/// state. Numbers, truth values and texts are skipped by themselves.
#[proc_macro_derive(Module, attributes(module))]
pub fn module(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// What is said of a field.
#[derive(Default)]
struct Said {
    name: Option<LitStr>,
    is_buffer: bool,
    is_skipped: bool,
}

fn said(field: &Field) -> Result<Said> {
    let mut said = Said::default();
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("module")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                let name: LitStr = meta.value()?.parse()?;
                if name.value().is_empty() {
                    return Err(Error::new(name.span(), "a name of a part must have a letter"));
                }
                said.name = Some(name);
            } else if meta.path.is_ident("buffer") {
                said.is_buffer = true;
            } else if meta.path.is_ident("skip") {
                said.is_skipped = true;
            } else {
                return Err(meta.error("expected `name = \"..\"`, `buffer` or `skip`"));
            }
            Ok(())
        })?;
    }
    if said.is_skipped && (said.is_buffer || said.name.is_some()) {
        return Err(Error::new(field.span(), "what is skipped has no name and is no buffer"));
    }
    Ok(said)
}

/// Whether a type holds no tensors, as its name tells.
fn is_plain(kind: &Type) -> bool {
    match kind {
        Type::Path(path) => path.path.get_ident().is_some_and(|name| PLAIN.contains(&name.to_string().as_str())),
        Type::Array(array) => is_plain(&array.elem),
        Type::Reference(reference) => is_plain(&reference.elem),
        _ => false,
    }
}

fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(
            input.ident.span(),
            "derive(Module) is for structs: what an enum holds has no fixed names",
        ));
    };
    let (mut parameters, mut buffers) = (Vec::new(), Vec::new());
    for (number, field) in data.fields.iter().enumerate() {
        let said = said(field)?;
        if said.is_skipped || (is_plain(&field.ty) && !said.is_buffer && said.name.is_none()) {
            continue;
        }
        let member = match (&data.fields, &field.ident) {
            (Fields::Named(_), Some(name)) => Member::Named(name.clone()),
            _ => Member::Unnamed(Index::from(number)),
        };
        let own = match &member {
            // A field may be called as a word of the language.
            Member::Named(name) => name.to_string().trim_start_matches("r#").to_string(),
            Member::Unnamed(index) => index.index.to_string(),
        };
        let name = said.name.map_or(own, |name| name.value());
        let part = quote!(::warpweft::nn::Part::add_parameters(&self.#member, #name, &mut named););
        if said.is_buffer {
            buffers.push(part);
        } else {
            parameters.push(part);
            buffers.push(quote!(::warpweft::nn::Part::add_buffers(&self.#member, #name, &mut named);));
        }
    }
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::warpweft::nn::Module for #name #arguments #bounds {
            fn parameters(&self) -> ::std::vec::Vec<::warpweft::Tensor> {
                ::warpweft::nn::Module::named_parameters(self).into_iter().map(|(_, tensor)| tensor).collect()
            }

            fn named_parameters(&self) -> ::warpweft::nn::Named {
                let mut named = ::warpweft::nn::Named::new();
                #(#parameters)*
                named
            }

            fn named_buffers(&self) -> ::warpweft::nn::Named {
                let mut named = ::warpweft::nn::Named::new();
                #(#buffers)*
                named
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of a struct, without spaces.
    fn made(text: &str) -> std::result::Result<String, String> {
        let input = syn::parse_str(text).map_err(|error| error.to_string())?;
        expand(&input).map(|made| made.to_string().replace(' ', "")).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_are_parts_by_their_names() {
        let made =
            made("struct N<T: Module> { a: T, #[module(name = \"b.c\")] r#in: Linear, r#type: Tensor, n: [i64; 2] }")
                .unwrap();
        assert!(made.contains("impl<T:Module>::warpweft::nn::ModuleforN<T>"), "{made}");
        for part in ["&self.a,\"a\"", "&self.r#in,\"b.c\"", "&self.r#type,\"type\""] {
            assert_eq!(made.matches(&format!("add_parameters({part},")).count(), 1, "{part}: {made}");
            assert_eq!(made.matches(&format!("add_buffers({part},")).count(), 1, "{part}: {made}");
        }
        assert!(!made.contains("\"n\""), "{made}");
    }

    #[test]
    fn buffers_and_what_is_skipped_do_not_learn() {
        let made = made("struct N(Tensor, #[module(buffer)] Tensor, #[module(skip)] Options);").unwrap();
        let (learn, state) = made.split_once("fnnamed_buffers").unwrap();
        assert!(learn.contains("&self.0,\"0\"") && !learn.contains("&self.1"), "{made}");
        assert!(state.contains("add_parameters(&self.1,\"1\"") && !made.contains("&self.2"), "{made}");
    }

    #[test]
    fn what_cannot_be_is_said() {
        assert!(made("enum N { A }").unwrap_err().contains("derive(Module) is for structs"));
        let error = made("struct N { #[module(rename = \"x\")] a: Tensor }").unwrap_err();
        assert_eq!(error, "expected `name = \"..\"`, `buffer` or `skip`");
        let error = made("struct N { #[module(skip, buffer)] a: Tensor }").unwrap_err();
        assert_eq!(error, "what is skipped has no name and is no buffer");
        assert!(made("struct N { #[module(name = \"\")] a: Tensor }").unwrap_err().contains("must have a letter"));
    }
}
