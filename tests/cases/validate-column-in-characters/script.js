let s = "äöü😀"; let x = = 1
