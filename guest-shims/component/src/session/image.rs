//! Comparison of a guest's memory with its image, page by page.

use std::{rc::Rc, sync::Arc};

use glovebox_core::session::{GuestPages, PAGE_BYTES, Page, PageChange};

use crate::{GuestMemory, ImageRun, Runtime};

/// The pristine image of a runtime, and the guest's memory to compare it with.
#[derive(Debug)]
pub(super) struct Image {
    memory: GuestMemory,
    runtime: Rc<Runtime>,
    /// A buffer of one page for comparisons. It is reused, so that it stays in the processor's cache.
    part: Box<Page>,
}

impl Image {
    pub(super) fn new(memory: GuestMemory, runtime: &Rc<Runtime>) -> Self {
        Self { memory, runtime: Rc::clone(runtime), part: Box::new([0; PAGE_BYTES]) }
    }

    /// Returns the guest's memory.
    pub(super) fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// Returns the runtime of the image.
    pub(super) fn runtime(&self) -> &Rc<Runtime> {
        &self.runtime
    }

    /// Returns the runs that overlap a page.
    fn runs(&self, start: u64) -> impl Iterator<Item = &ImageRun> {
        self.runtime.image.within(start, start + PAGE_BYTES as u64)
    }

    /// Returns a page of the image; `None` beyond its end.
    pub(super) fn original(&self, number: u32) -> Option<Page> {
        let start = u64::from(number) * PAGE_BYTES as u64;
        let mut page = [0; PAGE_BYTES];
        for run in self.runs(start) {
            let (begin, end) = (u64::from(run.start).max(start), run.end().min(start + PAGE_BYTES as u64));
            let at = |position: u64| usize::try_from(position - start).unwrap_or(PAGE_BYTES);
            let offset = run.offset.checked_add(u32::try_from(begin).ok()? - run.start)?;
            let into = page.get_mut(at(begin)..at(end))?;
            self.memory.guests().image_to_shim(self.runtime.number, offset, into);
        }
        (start < self.runtime.memory_bytes()).then_some(page)
    }

    /// Returns whether the guest's memory is zero in this range.
    fn is_zero(&self, from: u64, to: u64) -> bool {
        let (Ok(at), Ok(len)) = (u32::try_from(from), u32::try_from(to.saturating_sub(from))) else { return false };
        len == 0 || self.memory.guests().memory_is_zero(self.runtime.number, at, len)
    }

    /// Returns whether the guest's memory equals the image in this range, which is within one run and one page.
    fn is_same(&mut self, run: &ImageRun, from: u64, to: u64) -> bool {
        let (Ok(at), Ok(len)) = (u32::try_from(from), usize::try_from(to.saturating_sub(from))) else { return false };
        let Some(part) = self.part.get_mut(..len) else { return false };
        let guests = self.memory.guests();
        guests.image_to_shim(self.runtime.number, run.offset.saturating_add(at.saturating_sub(run.start)), part);
        guests.memory_equals(self.runtime.number, at, part)
    }

    /// Returns whether the page at this address equals the image, or is zero beyond the image.
    fn is_original(&mut self, at: u32) -> bool {
        let start = u64::from(at);
        let (end, runtime, mut at) = (start + PAGE_BYTES as u64, Rc::clone(&self.runtime), start);
        for run in runtime.image.within(start, end) {
            let (from, to) = (u64::from(run.start).max(start), run.end().min(end));
            if !self.is_zero(at, from) || !self.is_same(run, from, to) {
                return false;
            }
            at = to;
        }
        self.is_zero(at, end)
    }

    /// Returns the number of pages in the guest's memory.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.memory.bytes() / PAGE_BYTES as u64).unwrap_or(u32::MAX)
    }

    /// Returns the address of a page of the guest's memory; `None` beyond its end.
    fn address(&self, number: u32) -> Option<u32> {
        if number < self.count() { number.checked_mul(u32::try_from(PAGE_BYTES).ok()?) } else { None }
    }
}

impl GuestPages for Image {
    fn compare(&mut self, number: u32, saved: Option<&Page>) -> PageChange {
        let Some(at) = self.address(number) else { return PageChange::Pristine };
        if saved.is_some_and(|page| self.memory.guests().memory_equals(self.runtime.number, at, page)) {
            return PageChange::Unchanged;
        }
        let mut page = [0; PAGE_BYTES];
        if self.is_original(at) || self.memory.read(at, &mut page).is_err() {
            return PageChange::Pristine;
        }
        PageChange::Changed(Arc::new(page))
    }
}
