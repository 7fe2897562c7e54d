import { policyTests } from '../harness/policy-tests.js';

policyTests('completions');
