//! A planner that a program fills with devices, items and graphs.

use std::ptr::NonNull;

use crate::offload::captured::Reads;
use crate::offload::device::{Device, DeviceIndex};
use crate::offload::item::Item;
use crate::offload::planner::{Invalid, Measure, NotPlaced, OffloadPlan, Place, Request, Shortage, place};
use crate::offload::rules::Schedule;

use crate::ggml::bindings::{ggml_backend_sched, ggml_cgraph, ggml_tensor};
use crate::ggml::live::runtime::Runtime;

use super::assign::assign;
use super::compute::LiveCompute;
use super::graph::{Home, LiveGraph};
use super::request::OffloadFailure;
use super::request::{LiveDevice, LiveItem, OffloadRule, PlannerSettings};

/// Devices, items and graphs of a program, and where the items are placed.
#[derive(Debug)]
pub struct DevicePlanner {
    settings: PlannerSettings,
    devices: Vec<LiveDevice>,
    items: Vec<LiveItem>,
    graphs: Vec<NonNull<ggml_cgraph>>,
    placed: Option<OffloadPlan>,
    shortages: Vec<Shortage>,
}

impl DevicePlanner {
    /// Creates a planner without devices.
    pub fn new(settings: PlannerSettings) -> Self {
        Self {
            settings,
            devices: Vec::new(),
            items: Vec::new(),
            graphs: Vec::new(),
            placed: None,
            shortages: Vec::new(),
        }
    }

    /// Adds a device and returns its number. Earlier offload plans are forgotten, here and below.
    pub fn add_device(&mut self, device: LiveDevice) -> usize {
        self.forget();
        self.devices.push(device);
        self.devices.len() - 1
    }

    /// Adds an item and returns its number.
    pub fn add_item(&mut self, item: LiveItem) -> usize {
        self.forget();
        self.items.push(item);
        self.items.len() - 1
    }

    /// Adds a graph and returns its number.
    pub fn add_graph(&mut self, graph: NonNull<ggml_cgraph>) -> usize {
        self.forget();
        self.graphs.push(graph);
        self.graphs.len() - 1
    }

    /// Forgets earlier offload plans.
    pub fn forget(&mut self) {
        self.placed = None;
        self.shortages.clear();
    }

    /// Returns the ggml of the devices, where they say it.
    pub fn runtime(&self) -> Option<&'static Runtime> {
        self.devices.iter().find_map(|device| device.buffer_type).map(|buffer_type| buffer_type.runtime())
    }

    /// Returns the devices.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = &Device> {
        self.devices.iter().map(|device| &device.device)
    }

    /// Returns the number of items.
    pub fn item_count(&self) -> usize {
        self.items.len()
    }

    /// Returns whether a tensor is an item.
    pub fn has_item(&self, tensor: NonNull<ggml_tensor>) -> bool {
        self.items.iter().any(|item| item.tensor == Some(tensor))
    }

    /// Returns the graphs.
    pub fn graphs(&self) -> &[NonNull<ggml_cgraph>] {
        &self.graphs
    }

    /// Returns the placed items.
    pub fn placed(&self) -> Option<&OffloadPlan> {
        self.placed.as_ref()
    }

    /// Returns the devices whose budgets are too small, if nothing was placed for that reason.
    pub fn shortages(&self) -> &[Shortage] {
        &self.shortages
    }

    /// Searches for where to place the items, measured by `measure` or by planning the graphs.
    ///
    /// # Errors
    /// [`OffloadFailure`].
    ///
    /// # Safety
    /// The graphs and their tensors, and those of the items, are live, and no other thread changes them.
    pub unsafe fn search(
        &self,
        runtime: Option<&'static Runtime>,
        measure: Option<&mut dyn Measure>,
    ) -> Result<OffloadPlan, OffloadFailure> {
        let devices: Vec<Device> = self.devices().cloned().collect();
        // SAFETY: live tensors, as the caller guarantees.
        let mut items: Vec<Item> = self.items.iter().map(|item| unsafe { item.item(runtime, &self.devices) }).collect();
        let placed = match (measure, runtime) {
            (Some(_), _) if !self.graphs.is_empty() => return Err(OffloadFailure::MeasuredTwice),
            (Some(measure), _) => self.place(&devices, &items, measure),
            (None, Some(runtime)) if !self.graphs.is_empty() && !devices.is_empty() => {
                // SAFETY: live graphs, as the caller guarantees.
                let mut compute = unsafe { self.read(runtime) }?;
                self.add_benefits(&compute, &mut items);
                self.place(&devices, &items, &mut compute)
            }
            (None, _) if devices.is_empty() => Err(NotPlaced::Invalid(Invalid::NoDevice)),
            (None, _) => return Err(OffloadFailure::NothingToMeasure),
        };
        placed.map_err(OffloadFailure::from)
    }

    /// Keeps the offload plan, or the budgets that are too small. Returns `true` if the items are placed.
    pub fn settle(&mut self, found: Result<OffloadPlan, OffloadFailure>) -> bool {
        if let Err(OffloadFailure::NotPlaced(NotPlaced::Infeasible(shortages))) = &found {
            self.shortages.clone_from(shortages);
        }
        self.placed = found.ok();
        self.placed.is_some()
    }

    fn place(&self, devices: &[Device], items: &[Item], measure: &mut dyn Measure) -> Result<OffloadPlan, NotPlaced> {
        let PlannerSettings { order, spread, measurements, .. } = self.settings;
        place(&Request { devices, items, order, spread, measurements }, measure)
    }

    /// Returns, by leaf and by node of a graph, the device that it is on. There is a graph with that number.
    ///
    /// # Errors
    /// [`OffloadFailure`].
    ///
    /// # Safety
    /// What [`DevicePlanner::search`] requires; the graph has not been scheduled or changed since.
    pub unsafe fn residences(
        &self,
        runtime: &'static Runtime,
        graph: usize,
    ) -> Result<[Vec<DeviceIndex>; 2], OffloadFailure> {
        // SAFETY: as the caller guarantees.
        let compute = unsafe { self.read_for(runtime) }?;
        let schedule = self.schedule(&compute, graph)?;
        Ok(compute.residences(graph, &schedule).map(|list| list.into_iter().map(|at| at as DeviceIndex).collect()))
    }

    /// Assigns the nodes of a graph, one of [`DevicePlanner::graphs`], to the backends of a scheduler.
    ///
    /// # Errors
    /// [`OffloadFailure`].
    ///
    /// # Safety
    /// What [`DevicePlanner::residences`] requires; the scheduler is live, and of this thread.
    pub unsafe fn apply(
        &self,
        runtime: &'static Runtime,
        graph: usize,
        scheduler: NonNull<ggml_backend_sched>,
    ) -> Result<(), OffloadFailure> {
        if self.settings.rule == OffloadRule::PowerInfer {
            return Err(OffloadFailure::NotSchedulable);
        }
        // SAFETY: as the caller guarantees.
        let compute = unsafe { self.read_for(runtime) }?;
        let schedule = self.schedule(&compute, graph)?;
        // SAFETY: a live scheduler and graph, as the caller guarantees.
        unsafe { assign(runtime, scheduler, self.devices.len(), compute.graph(graph), &schedule) }
    }

    fn schedule(&self, compute: &LiveCompute<'_, '_>, graph: usize) -> Result<Schedule, OffloadFailure> {
        let placed = self.placed.as_ref().ok_or(OffloadFailure::NotSolved)?;
        compute.schedule(graph, &placed.assignment).map_err(|why| OffloadFailure::Graph { graph, why })
    }

    /// # Safety
    /// What [`DevicePlanner::search`] requires.
    unsafe fn read_for(&self, runtime: &'static Runtime) -> Result<LiveCompute<'_, '_>, OffloadFailure> {
        if self.placed.is_none() {
            return Err(OffloadFailure::NotSolved);
        }
        // SAFETY: as the caller guarantees.
        unsafe { self.read(runtime) }
    }

    /// # Safety
    /// What [`DevicePlanner::search`] requires.
    unsafe fn read(&self, runtime: &'static Runtime) -> Result<LiveCompute<'_, '_>, OffloadFailure> {
        // SAFETY: live graphs, as the caller guarantees.
        let read =
            |&graph: &NonNull<ggml_cgraph>| unsafe { LiveGraph::read(runtime, graph, &self.devices, &self.items) };
        let graphs: Result<Vec<LiveGraph<'_>>, OffloadFailure> = self.graphs.iter().map(read).collect();
        let kinds = self.items.iter().map(|item| item.kind).collect();
        Ok(LiveCompute::new(runtime, self.settings, &self.devices, kinds, graphs?))
    }

    /// Sets the benefits that the program leaves open to the bytes that the graphs read.
    fn add_benefits(&self, compute: &LiveCompute<'_, '_>, items: &mut [Item]) {
        for graph in (0..compute.count()).map(|graph| compute.graph(graph)) {
            let reads = Reads::of(&graph.snapshot);
            for (home, bytes) in graph.homes.iter().zip(reads.bytes) {
                if let Home::Item(at) = *home
                    && self.items[at].benefit.is_none()
                {
                    items[at].benefit += bytes;
                }
            }
        }
    }

    /// Returns where an item is.
    pub fn place_of(&self, item: usize) -> Option<Place> {
        self.placed.as_ref()?.assignment.0.get(item).copied()
    }
}
