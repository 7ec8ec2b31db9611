//! Our own source as data: files, items, sizes, and which file names which.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Fields, File, FnArg, GenericArgument, Ident, Item, PathArguments, Signature, Type, UseTree,
    Visibility, spanned::Spanned, visit::Visit,
};

/// The crate as modules, each a file. Test modules are left out.
pub(super) struct Source {
    modules: BTreeMap<ModulePath, Module>,
}

/// `["link", "machine"]` for `crate::link::machine`.
type ModulePath = Vec<String>;

struct Module {
    file: PathBuf,
    text: String,
    syntax: File,
    /// Names that it passes on from elsewhere, with where they come from.
    reexports: BTreeMap<String, Vec<String>>,
    /// Modules of which it passes on everything.
    globs: Vec<Vec<String>>,
}

/// Something with a size, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sized {
    pub(super) size: usize,
    /// `src/link/machine.rs: Link::handle`.
    pub(super) name: String,
}

/// Everything that has a limit, largest first.
#[derive(Default)]
pub(super) struct Figures {
    /// Lines of code in all files, without blank lines, comments and tests.
    pub(super) code_lines: usize,
    /// Lines of each file, tests aside.
    pub(super) files: Vec<Sized>,
    /// Lines of each function, from its signature to its closing brace.
    pub(super) functions: Vec<Sized>,
    /// Named fields of each struct.
    pub(super) structs: Vec<Sized>,
    /// Parameters of each function, `self` aside.
    pub(super) parameters: Vec<Sized>,
    /// Groups of files that use each other in a circle.
    pub(super) cycles: Vec<Vec<String>>,
    /// Names that more than one public type has.
    pub(super) duplicate_names: Vec<String>,
    /// Where an error is only text.
    pub(super) text_errors: Vec<String>,
}

impl Source {
    pub(super) fn read() -> Self {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut modules = BTreeMap::new();
        read_folder(&src, &[], &mut modules);
        Self { modules }
    }

    pub(super) fn figures(&self) -> Figures {
        let mut found = Measuring::default();
        for module in self.modules.values() {
            found.file = short(&module.file);
            found.measure(module);
        }
        let mut figures = found.figures;
        for sizes in [
            &mut figures.files,
            &mut figures.functions,
            &mut figures.structs,
            &mut figures.parameters,
        ] {
            sizes.sort_by(|a, b| b.cmp(a));
        }
        let twice = found
            .type_names
            .into_iter()
            .filter(|(_, files)| files.len() > 1);
        figures.duplicate_names = twice
            .map(|(name, files)| format!("{name} in {}", files.join(", ")))
            .collect();
        figures.cycles = self.cycles();
        figures
    }

    /// Which file uses which, by what each names; a re-exported name counts as a use of the file that defines it.
    fn uses(&self) -> BTreeMap<&ModulePath, BTreeSet<&ModulePath>> {
        let mut uses = BTreeMap::new();
        for (path, module) in &self.modules {
            let mut paths = Paths::default();
            for item in without_tests(&module.syntax.items) {
                paths.visit_item(item);
            }
            let named = paths.found.iter().map(|named| absolute(path, named));
            let mut files: BTreeSet<&ModulePath> =
                named.filter_map(|named| self.defining(&named, 0)).collect();
            files.remove(path);
            uses.insert(path, files);
        }
        uses
    }

    /// The module that defines what a path from the root of the crate names.
    fn defining(&self, path: &[String], depth: usize) -> Option<&ModulePath> {
        if depth > 8 {
            return None;
        }
        let longest = (0..=path.len())
            .rev()
            .find(|end| self.modules.contains_key(&path[..*end]))?;
        let (found, module) = self.modules.get_key_value(&path[..longest])?;
        let Some(name) = path.get(longest) else {
            // The module itself, to name what is in it: those paths are found by themselves.
            return None;
        };
        if let Some(from) = module.reexports.get(name) {
            let mut target = absolute(found, from);
            target.extend_from_slice(&path[longest + 1..]);
            return self.defining(&target, depth + 1).or(Some(found));
        }
        if !defines(&module.syntax, name) {
            for glob in &module.globs {
                let mut target = absolute(found, glob);
                target.extend_from_slice(&path[longest..]);
                if let Some(defining) = self.defining(&target, depth + 1) {
                    return Some(defining);
                }
            }
            // A private `use` of a parent, taken by `super::`.
            return (found.len() + 1 == path.len() || path.len() > longest).then_some(found);
        }
        Some(found)
    }

    /// The strongly connected components of more than one file (Tarjan).
    fn cycles(&self) -> Vec<Vec<String>> {
        let uses = self.uses();
        let reachable = |from: &ModulePath| {
            let mut seen: BTreeSet<&ModulePath> = BTreeSet::new();
            let mut open: Vec<&ModulePath> = uses[from].iter().copied().collect();
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(&uses[next]);
                }
            }
            seen
        };
        let reach: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
            uses.keys().map(|path| (*path, reachable(path))).collect();
        let mut groups = BTreeSet::new();
        for (path, reached) in &reach {
            if reached.contains(path) {
                let group = reached.iter().filter(|other| reach[**other].contains(path));
                groups.insert(
                    group
                        .map(|other| short(&self.modules[*other].file))
                        .collect(),
                );
            }
        }
        groups.into_iter().collect()
    }
}

fn read_folder(folder: &Path, path: &[String], modules: &mut BTreeMap<ModulePath, Module>) {
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut own: Vec<String> = path.to_vec();
        if file.is_dir() {
            own.push(name);
            read_folder(&file, &own, modules);
            continue;
        }
        if file.extension().is_none_or(|extension| extension != "rs") || name == "tests" {
            continue;
        }
        if !["mod", "lib", "main"].contains(&name.as_str()) {
            own.push(name.clone());
        }
        if name == "main" {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let syntax = syn::parse_file(&text).unwrap();
        let (mut reexports, mut globs) = (BTreeMap::new(), Vec::new());
        for item in without_tests(&syntax.items) {
            if let Item::Use(item) = item {
                spread(&item.tree, &mut Vec::new(), &mut |path, name| match name {
                    Some(name) => {
                        reexports.insert(name, path.to_vec());
                    }
                    None if !matches!(item.vis, Visibility::Inherited) => globs.push(path.to_vec()),
                    None => {}
                });
            }
        }
        let module = Module {
            file,
            text,
            syntax,
            reexports,
            globs,
        };
        modules.insert(own, module);
    }
}

/// Calls back with each path of a `use`, and the name that it gets; `None` for `*`.
fn spread(
    tree: &UseTree,
    path: &mut Vec<String>,
    found: &mut impl FnMut(&[String], Option<String>),
) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            spread(&part.tree, path, found);
            path.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            let last = path.last().cloned();
            found(path, last);
        }
        UseTree::Name(name) => {
            path.push(name.ident.to_string());
            found(path, Some(name.ident.to_string()));
            path.pop();
        }
        UseTree::Rename(name) => {
            path.push(name.ident.to_string());
            found(path, Some(name.rename.to_string()));
            path.pop();
        }
        UseTree::Glob(_) => found(path, None),
        UseTree::Group(group) => {
            for tree in &group.items {
                spread(tree, path, found);
            }
        }
    }
}

fn without_tests(items: &[Item]) -> impl Iterator<Item = &Item> {
    items.iter().filter(|item| !is_test(item))
}

fn is_test(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<Ident>()
                .is_ok_and(|what| what == "test")
    })
}

/// Whether a file has an item of this name, or a submodule.
fn defines(syntax: &File, name: &str) -> bool {
    syntax.items.iter().any(|item| match item {
        Item::Const(item) => item.ident == name,
        Item::Enum(item) => item.ident == name,
        Item::Fn(item) => item.sig.ident == name,
        Item::Mod(item) => item.ident == name,
        Item::Static(item) => item.ident == name,
        Item::Struct(item) => item.ident == name,
        Item::Trait(item) => item.ident == name,
        Item::Type(item) => item.ident == name,
        _ => false,
    })
}

/// A path as it is written in a module, from the root of the crate.
fn absolute(module: &[String], path: &[String]) -> Vec<String> {
    let mut base: Vec<String> = match path.first().map(String::as_str) {
        Some("crate") => Vec::new(),
        _ => module.to_vec(),
    };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => {
                base.pop();
            }
            part => base.push(part.to_owned()),
        }
    }
    base
}

fn short(file: &Path) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    file.strip_prefix(root).unwrap().display().to_string()
}

/// All paths that a file names and that could be of this crate.
#[derive(Default)]
struct Paths {
    found: Vec<Vec<String>>,
}

impl<'a> Visit<'a> for Paths {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(item) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        spread(&item.tree, &mut Vec::new(), &mut |path, name| {
            // What a file only passes on is no use of it.
            if matches!(item.vis, Visibility::Inherited) && name.is_some() {
                self.found.push(path.to_vec());
            }
        });
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            let parts = path.segments.iter().map(|part| part.ident.to_string());
            self.found.push(parts.collect());
        }
        syn::visit::visit_path(self, path);
    }
}

#[derive(Default)]
struct Measuring {
    figures: Figures,
    file: String,
    /// The type whose methods are visited.
    owner: Option<String>,
    type_names: BTreeMap<String, Vec<String>>,
}

impl Measuring {
    fn measure(&mut self, module: &Module) {
        let mut is_test_line = vec![false; module.text.lines().count() + 2];
        for item in module.syntax.items.iter().filter(|item| is_test(item)) {
            let span = item.span();
            is_test_line[span.start().line..=span.end().line].fill(true);
        }
        let lines = (1..)
            .zip(module.text.lines())
            .filter(|(at, _)| !is_test_line[*at]);
        let size = lines.clone().count();
        let is_code = |line: &str| !line.trim().is_empty() && !line.trim().starts_with("//");
        self.figures.code_lines += lines.filter(|(_, line)| is_code(line)).count();
        let name = self.file.clone();
        self.figures.files.push(Sized { size, name });
        for item in without_tests(&module.syntax.items) {
            self.visit_item(item);
        }
    }

    fn add_function(&mut self, signature: &Signature, end: proc_macro2::Span) {
        let owner = self
            .owner
            .as_ref()
            .map(|owner| format!("{owner}::"))
            .unwrap_or_default();
        let name = format!("{}: {owner}{}", self.file, signature.ident);
        let size = end.end().line + 1 - signature.span().start().line;
        self.figures.functions.push(Sized {
            size,
            name: name.clone(),
        });
        let counted = |argument: &&FnArg| matches!(argument, FnArg::Typed(_));
        let size = signature.inputs.iter().filter(counted).count();
        self.figures.parameters.push(Sized { size, name });
    }

    fn add_type(&mut self, visibility: &Visibility, name: &Ident) {
        let is_public = match visibility {
            Visibility::Public(_) => true,
            Visibility::Restricted(to) => to.path.is_ident("crate"),
            Visibility::Inherited => false,
        };
        if is_public {
            let files = self.type_names.entry(name.to_string()).or_default();
            files.push(self.file.clone());
        }
    }
}

impl<'a> Visit<'a> for Measuring {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(item) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let owner = match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let outer = std::mem::replace(&mut self.owner, owner);
        syn::visit::visit_item_impl(self, item);
        self.owner = outer;
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.add_function(&item.sig, item.block.span());
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.add_function(&item.sig, item.block.span());
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'a syn::ItemStruct) {
        if let Fields::Named(fields) = &item.fields {
            let name = format!("{}: {}", self.file, item.ident);
            let size = fields.named.len();
            self.figures.structs.push(Sized { size, name });
        }
        self.add_type(&item.vis, &item.ident);
        syn::visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'a syn::ItemEnum) {
        self.add_type(&item.vis, &item.ident);
        syn::visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        self.add_type(&item.vis, &item.ident);
        syn::visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'a syn::ItemType) {
        self.add_type(&item.vis, &item.ident);
        syn::visit::visit_item_type(self, item);
    }

    fn visit_path_segment(&mut self, segment: &'a syn::PathSegment) {
        if segment.ident == "Result"
            && let PathArguments::AngleBracketed(arguments) = &segment.arguments
            && let Some(GenericArgument::Type(Type::Path(error))) = arguments.args.iter().nth(1)
            && error.path.is_ident("String")
        {
            let line = segment.span().start().line;
            self.figures
                .text_errors
                .push(format!("{}:{line}", self.file));
        }
        syn::visit::visit_path_segment(self, segment);
    }
}
