throw new Error('no rules');
