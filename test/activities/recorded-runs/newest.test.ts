import { playRecordedRuns } from './suite-of-activities.js';

playRecordedRuns('nemo-rl');
