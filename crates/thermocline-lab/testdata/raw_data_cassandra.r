v <- c(
  # baseline swapoff exp
  69952, 70274, 70286, 70818, 70946, 71202, 71244, 71615, 71787, 72725,
  # baseline swapoff uni
  45309, 46056, 46086, 46188, 47275, 47524, 47797, 48243, 48329, 48465,
  # baseline swapoff zip
  69096, 69194, 69386, 69408, 69412, 70795, 70890, 71170, 71232, 72132,
  # baseline swapon exp
  69836, 70783, 70951, 71188, 71521, 71764, 72035, 72166, 72287, 72465,
  # baseline swapon uni
  46089, 46963, 47308, 47599, 47776, 47822, 47952, 48042, 48092, 48211,
  # baseline swapon zip
  68986, 69279, 69290, 69805, 70146, 70913, 71462, 71978, 72370, 72753,
  # patched swapoff exp
  70701, 71328, 71458, 72846, 72885, 73078, 73702, 74077, 74415, 74685,
  # patched swapoff uni
  48275, 48460, 48735, 48813, 48902, 48969, 48996, 49007, 49213, 49258,
  # patched swapoff zip
  71829, 72909, 73259, 73835, 74200, 74544, 75318, 75514, 76031, 76049,
  # patched swapon exp
  71169, 71968, 72208, 72374, 72401, 72755, 72861, 72942, 73469, 73932,
  # patched swapon uni
  50292, 50529, 50981, 51224, 51414, 51420, 51480, 51608, 51625, 51628,
  # patched swapon zip
  72032, 72325, 73834, 74366, 74482, 74573, 74810, 75044, 75371, 75646
)

a <- array(v, dim = c(10, 3, 2, 2))

# baseline vs patched
for (swap in 1:2) {
    for (dist in 1:3) {
        r <- t.test(a[, dist, swap, 1], a[, dist, swap, 2])
        print(r)
        p <- r$conf.int * 100 / r$estimate[1]
        if ((p[1] > 0 && p[2] < 0) || (p[1] < 0 && p[2] > 0)) {
            s <- sprintf("swap%d dist%d: no significance", swap, dist)
        } else {
            s <- sprintf("swap%d dist%d: [%.2f, %.2f]%%", swap, dist, -p[2], -p[1])
        }
        print(s)
    }
}

# swapoff vs swapon
for (kern in 1:2) {
    for (dist in 1:3) {
        r <- t.test(a[, dist, 1, kern], a[, dist, 2, kern])
        print(r)
        p <- r$conf.int * 100 / r$estimate[1]
        if ((p[1] > 0 && p[2] < 0) || (p[1] < 0 && p[2] > 0)) {
            s <- sprintf("kern%d dist%d: no significance", kern, dist)
        } else {
            s <- sprintf("kern%d dist%d: [%.2f, %.2f]%%", kern, dist, -p[2], -p[1])
        }
        print(s)
    }
}
