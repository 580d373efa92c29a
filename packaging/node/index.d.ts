/** The path of the shared library, for LD_PRELOAD. */
export const library: string;

/** Why lastuse has no effect in this process, or may have none; null if it was loaded in time. */
export const why: string | null;

/** What set changes: the names of the variables of the environment, without LASTUSE_. */
export type Setting =
  | 'log' | 'report' | 'rules' | 'effort' | 'reorder' | 'budget' | 'recompute' | 'on_demand' | 'arena' | 'recycle' | 'verify' | 'retain'
  | 'capture' | 'dump_dir' | 'dump' | 'accounting' | 'live';

/** Changes a setting before a ggml is loaded, in the main thread; null is the default. Throws where it has no effect. */
export function set(name: Setting, value: string | number | null): void;

export interface Stats {
  /** What serves ggml; null as long as it has made no allocator. */
  server: 'lastuse' | 'ggml-alloc' | null;
  /** Of the compute buffers that exist. */
  bytes: number;
  /** What ggml's own allocator would have taken for them. */
  ggmlAllocBytes: number;
  /** So far, by all allocators. */
  plans: number;
  /** Microseconds that the plans took. */
  planningUs: number;
}

/** Returns the statistics of this process. Throws unless set('report', FILE) named a new file before. */
export function stats(): Stats;
