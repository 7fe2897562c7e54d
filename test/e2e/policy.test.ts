import { policyTests } from '../harness/policy-tests.js';

// The other wire: test/long/policy-completions.test.ts.
policyTests('generate');
