// Is checked by tsc, and not run.
import { library, set, stats, why } from 'lastuse';
import type { Stats } from 'lastuse';

const found: Stats = stats();
const texts: Array<string | null> = [library, why, found.server];
set('budget', '2GiB');
set('effort', 7);
set('report', null);
// @ts-expect-error there is no such setting
set('rule', 'all');
export const sum: number = found.bytes + found.ggmlAllocBytes + found.plans + found.planningUs + texts.length;
